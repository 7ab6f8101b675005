import { afterEach, describe, expect, it } from 'vitest';
import { detailsOf, indexDetails, newestRecord } from '../../src/array/details.ts';
import { survey } from '../../src/array/survey.ts';
import type { IndexRow } from '../../src/array/survey.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from './store-of-records.ts';

let stored: StoreOfRecords | undefined;
afterEach(async () => {
  await stored?.close();
  stored = undefined;
});

const { signal } = new AbortController();
const place = ({ store }: StoreOfRecords): { store: StoreOfRecords['store']; taskName: string } => ({
  store,
  taskName: 't',
});

async function onlyRow(of: StoreOfRecords): Promise<IndexRow> {
  const { rows } = await survey(place(of), Date.now(), signal);
  const [row] = rows;
  if (row === undefined) throw new Error('no index');
  return row;
}

describe.each(STORE_KINDS)('the details of an index in %s', (kind) => {
  it('are in its newest record, which is read with one request', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: '1', attempt: 1, seq: 1, kind: 'stored', host: 'node1' });
    stored.record({ index: '1', attempt: 2, seq: 0, kind: 'started' });
    const row = await onlyRow(stored);
    const before = stored.server?.served.length ?? 0;
    const { newest, problems } = await newestRecord(place(stored), row, signal);
    expect(newest?.record).toMatchObject({ attempt: 1, seq: 1, host: 'node1' });
    expect(problems).toEqual([]);
    if (stored.server !== undefined) expect(stored.server.served.length - before).toBe(1);
  });

  it('are in the record before, if the newest is damaged', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 1, kind: 'stored', host: 'node1' });
    stored.put('.capture/t/1/0001-000002.done.json', '{"format":1');
    stored.put('.capture/t/1/0002-000001.stored.json', 'x');
    const { newest, problems } = await newestRecord(place(stored), await onlyRow(stored), signal);
    expect(newest?.record).toMatchObject({ attempt: 1, seq: 1 });
    expect(problems.join('\n')).toMatch(/0001-000002\.done.*\n.*0002-000001\.stored/);
  });

  it('are nowhere if there is nothing but claims', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' });
    const found = await newestRecord(place(stored), await onlyRow(stored), signal);
    expect(found).toEqual({ newest: undefined, problems: [] });
  });

  it('have one record of each attempt, and say which record of an attempt cannot be read', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: '1', attempt: 1, seq: 3, kind: 'failed', status: 1 });
    stored.record({ index: '1', attempt: 2, seq: 0, kind: 'started' });
    stored.put('.capture/t/1/0002-000001.stored.json', 'x');
    stored.record({ index: '1', attempt: 3, seq: 0, kind: 'started' });
    const listed = await indexDetails(place(stored), '1', signal);
    const seen = await detailsOf(place(stored), await onlyRow(stored), signal);
    for (const { attempts, damaged, problems } of [listed, seen]) {
      expect(attempts.map(({ record }) => `${record.attempt} ${record.kind}`)).toEqual([
        '1 failed',
        '2 started',
        '3 started',
      ]);
      expect([...damaged.values()]).toMatchObject([{ attempt: 2, seq: 1, kind: 'stored' }]);
      expect(problems).toHaveLength(1);
    }
  });

  it('are read without a listing where the survey has seen them', async () => {
    stored = await openStoreOfRecords(kind);
    stored.record({ index: '1', attempt: 1, seq: 0, kind: 'started' });
    stored.record({ index: '1', attempt: 1, seq: 3, kind: 'preempted' });
    stored.record({ index: '1', attempt: 2, seq: 0, kind: 'started' });
    stored.record({ index: '1', attempt: 2, seq: 2, kind: 'done' });
    const row = await onlyRow(stored);
    const before = stored.server?.served.length ?? 0;
    const { attempts } = await detailsOf(place(stored), row, signal);
    expect(attempts.map(({ record }) => record.kind)).toEqual(['preempted', 'done']);
    if (stored.server !== undefined) expect(stored.server.served.length - before).toBe(2);
  });
});
