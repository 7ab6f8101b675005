import { setMaxListeners } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { statesOf } from '../../src/array/state.ts';
import { survey, type Survey } from '../../src/array/survey.ts';
import { recordKey } from '../../src/model/format/keys.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from './store-of-records.ts';

let stored: StoreOfRecords | undefined;
afterEach(async () => {
  await stored?.close();
  stored = undefined;
});

const forManyRequests = (): AbortSignal => {
  const { signal } = new AbortController();
  setMaxListeners(0, signal);
  return signal;
};

const surveyed = async ({ store }: StoreOfRecords, nowMs = Date.now()): Promise<Survey> =>
  survey({ store, taskName: 't' }, nowMs, forManyRequests());

describe.each(STORE_KINDS)('a survey of %s', (kind) => {
  it('finds of each index its attempts, its newest record, and what tells what is stored', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '10', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: '10', attempt: 1, seq: 1, kind: 'checkpoint' });
    stored.record({ index: '10', attempt: 1, seq: 2, kind: 'failed', status: 137 });
    stored.record({ index: '10', attempt: 2, seq: 0, kind: 'started' });
    stored.record({ index: '9', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: 'left', attempt: 3, seq: 5, kind: 'done' });
    const { rows } = await surveyed(stored);
    expect(rows.map(({ index }) => index)).toEqual(['9', '10', 'left']);
    expect(rows[1]).toMatchObject({
      attempts: 2,
      newestOfEach: ['0001-000002.failed-137', '0002-000000.started'].map(
        (name) => `.capture/t/10/${name}.json`,
      ),
      newest: { attempt: 2, seq: 0, kind: 'started', status: undefined },
      telling: { attempt: 1, seq: 2, kind: 'failed', status: 137, key: expect.stringContaining('/10/') },
      claimedMs: expect.any(Number),
      checkpointMs: expect.any(Number),
    });
    expect(rows[0]?.telling).toBeUndefined();
    expect(rows[2]).toMatchObject({ attempts: 1, claimedMs: undefined, newest: { kind: 'done' } });
  });

  it('passes over what is no record, and other tasks', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started', task: 't2' });
    stored.put('.capture/t/1/notes.txt', 'x');
    stored.put('.capture/t/2/0001-000000.started.json.bak', 'x');
    stored.put('.capture/t/3/deeper/0001-000000.started.json', 'x');
    stored.put('.capture/t/4/0001-000001.somehow.json', 'x');
    stored.put(recordKey({ taskName: 't', index: '5' }, 1, 1, 'list'), 'x');
    const { rows } = await surveyed(stored);
    expect(rows.map(({ index }) => index)).toEqual(['1']);
  });

  it('takes of a record without content only that its attempt began, and gave a sign of life', async () => {
    stored = await openStoreOfRecords(kind);
    const atMs = 1_000_000_000_000;
    for (const last of ['done', 'failed-3', 'preempted', 'checkpoint']) {
      stored.record({ index: last, attempt: 1, seq: 0, kind: 'started' }, atMs);
      stored.record({ index: last, attempt: 1, seq: 1, kind: 'stored' }, atMs);
      stored.put(recordKey({ taskName: 't', index: last }, 1, 2, last), '', atMs + 60_000);
    }
    const found = await surveyed(stored, atMs + 60_000);
    expect(found.rows).toHaveLength(4);
    for (const row of found.rows)
      expect(row).toMatchObject({
        newestOfEach: [expect.stringContaining('0001-000002.')],
        newest: { attempt: 1, seq: 2, kind: 'started', status: undefined },
        // Whoever reads it says that it is damaged.
        telling: { seq: 2, kind: 'started', status: undefined },
        seenMs: atMs + 60_000,
        checkpointMs: undefined,
      });
    const statesAfter = (staleAfterMs: number): readonly string[] =>
      [...statesOf({ ...found, nowMs: atMs + 61_000 }, staleAfterMs)].map(({ state }) => state);
    expect(new Set(statesAfter(2000))).toEqual(new Set(['running']));
    expect(new Set(statesAfter(500))).toEqual(new Set(['stale']));
  });

  it('takes a list segment of the newest attempt for a sign of life', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' }, 1_000_000_000_000);
    stored.put(recordKey({ taskName: 't', index: '1' }, 1, 1, 'list'), 'x', 1_000_000_060_000);
    const [row] = (await surveyed(stored)).rows;
    expect(row).toMatchObject({
      seenMs: 1_000_000_060_000,
      claimedMs: 1_000_000_000_000,
      newest: { seq: 0 },
    });
  });

  it('takes the newest record for now, if this clock is behind that of the store', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' });
    const { rows, nowMs } = await surveyed(stored, 1000);
    expect(nowMs).toBe(rows[0]?.seenMs);
  });
});

describe('the requests of a survey', () => {
  const listings = ({ server }: StoreOfRecords): number =>
    server?.served.filter(({ operation }) => operation === 'ListObjectsV2').length ?? 0;

  it('is one for an array of which a page holds all records', async () => {
    stored = await openStoreOfRecords('an S3 server');
    for (let index = 0; index < 20; index += 1)
      stored.record({ index: String(index), attempt: 1, seq: 0, kind: 'started' });
    expect((await surveyed(stored)).rows).toHaveLength(20);
    expect(listings(stored)).toBe(1);
  });

  it('are parts of a long listing, and none of them is missing', async () => {
    const opened = await openStoreOfRecords('an S3 server');
    stored = opened;
    const indices = [...Array.from({ length: 1100 }, (_, at) => String(at)), '-', 'Z', '_x', 'a', 'z9'];
    for (const index of indices) opened.put(`.capture/t/${index}/0001-000000.started.json`, 'x');
    const { rows } = await surveyed(opened);
    expect(rows.map(({ index }) => index)).toEqual(indices);
    // One page of the whole, then a part for each first character: none of them has more than a page here.
    expect(listings(opened)).toBe(2 + 64);
  });
});
