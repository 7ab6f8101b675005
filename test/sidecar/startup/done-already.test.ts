// `--skip-done` by records alone: a store in memory, records that the test writes.
import { beforeEach, expect, it } from 'vitest';
import { type KeyScope, recordKey, resultKey } from '../../../src/model/format/keys.ts';
import {
  type CaptureRecord,
  type RecordKind,
  type StoredFile,
  textWithSum,
} from '../../../src/model/format/records.ts';
import type { Settings } from '../../../src/model/format/settings.ts';
import { runFields } from '../../../src/records/ledger.ts';
import { listRecords } from '../../../src/records/list.ts';
import type { Log } from '../../../src/log/log.ts';
import { Paths } from '../../../src/model/packed/packed-map.ts';
import type { Outage } from '../../../src/sidecar/run/outage.ts';
import { openAttempt } from '../../../src/sidecar/startup/attempt.ts';
import { Refusal } from '../../../src/sidecar/startup/refusal.ts';
import { doneAttempt } from '../../../src/sidecar/startup/done-already.ts';
import { memoryStore, type MemoryStore } from '../../support/memory-store.ts';

const SCOPE: KeyScope = { taskName: 't', index: '0' };
const RESULT: StoredFile = {
  path: 'r.dat',
  kind: 'file',
  key: resultKey('r.dat', SCOPE, false),
  push: 'p1',
  attempt: 1,
  md5: '0'.repeat(32),
  size: 1,
  compressed: false,
  mtimeNs: '0',
  mode: 0o644,
};

let store: MemoryStore;
beforeEach(() => {
  store = memoryStore();
  record(1, 0, 'started');
  record(1, 1, 'checkpoint');
  record(1, 2, 'done', { results: [RESULT] });
  put('p1');
});

function record(attempt: number, seq: number, kind: RecordKind, facts: Partial<CaptureRecord> = {}): void {
  const at = new Date(0).toISOString();
  const run = {
    scope: SCOPE,
    attempt,
    runId: undefined,
    runToken: 'token',
    host: 'h',
    argv: [],
    scheduler: {},
  };
  const body = {
    ...runFields({ ...run, startedAt: at }),
    kind,
    seq,
    at,
    push: `${attempt}-${seq}`,
    ...facts,
  };
  store.objects.set(recordKey(SCOPE, attempt, seq, kind), {
    bytes: Buffer.from(textWithSum(body)),
    meta: {},
  });
}

const put = (push: string): unknown =>
  store.objects.set(RESULT.key, { bytes: Buffer.from('x'), meta: { push } });

async function done(runId?: string): Promise<number | undefined> {
  const settings = { identity: { runId } } as unknown as Settings;
  return doneAttempt(store, await listRecords(store, SCOPE), settings, new AbortController().signal);
}

it('is the attempt whose last record says so', async () => {
  expect(await done()).toBe(1);
});

it('is no attempt of another run', async () => {
  expect(await done('b')).toBeUndefined();
});

it('is no attempt whose last record is damaged: nobody knows what it said', async () => {
  store.objects.set(recordKey(SCOPE, 1, 2, 'done'), { bytes: Buffer.from('{'), meta: {} });
  expect(await done()).toBeUndefined();
});

it('is no attempt that a later attempt continued from', async () => {
  record(2, 0, 'started');
  record(2, 1, 'stored', { results: [RESULT] });
  expect(await done()).toBeUndefined();
});

it('still holds after an attempt that died before it recorded any result, if all results are still there', async () => {
  record(2, 0, 'started');
  store.objects.set(recordKey(SCOPE, 2, 1, 'list'), {
    bytes: Buffer.from(textWithSum({ format: 1, results: [] })),
    meta: {},
  });
  expect(await done()).toBe(1);
  put('p2');
  expect(await done()).toBeUndefined();
});

it('is also found if that attempt ends between our check and our claim, and we give the claim back', async () => {
  store = memoryStore();
  record(1, 0, 'started');
  const listing = await listRecords(store, SCOPE);
  record(1, 2, 'done', { results: [RESULT] });
  put('p1');
  const before = [...store.objects.keys()];
  const settings = {
    identity: { runId: undefined, argv: [], scheduler: {} },
    to: { url: 'memory:', unfenced: false },
    skipDone: true,
  } as unknown as Settings;
  const opened = await openAttempt({
    settings,
    attempt: undefined,
    log: { ofAttempt: () => undefined } as unknown as Log,
    outage: {} as Outage,
    onFenced: () => undefined,
    signal: new AbortController().signal,
    store,
    scope: SCOPE,
    listing,
    resumed: undefined,
    paths: new Paths(),
    refusal: new Refusal(),
  });
  expect(opened).toEqual({ done: 1 });
  expect([...store.objects.keys()]).toEqual(before);
});
