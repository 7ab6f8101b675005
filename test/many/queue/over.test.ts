// Is a submission over? The store says so; what the queue has lost comes back.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { STALE_AFTER_MS } from '../../../src/array/state.ts';
import type { Submission } from '../../../src/model/many/submission.ts';
import { closeIfOver } from '../../../src/many/queue/over.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../../array/store-of-records.ts';
import { MemoryBroker } from './memory-broker.ts';
import { submission } from './submissions.ts';

let stored: StoreOfRecords;
let broker: MemoryBroker;
let said: string[];
beforeEach(async () => {
  stored = await openStoreOfRecords('a directory');
  broker = new MemoryBroker();
  said = [];
});
afterEach(() => stored.close());

function given(changes: Partial<Submission> = {}): Submission {
  const one = submission({
    taskName: 't',
    indices: { ranges: [{ first: 0, last: 2, step: 1 }] },
    size: 3,
    store: { url: stored.url, flags: [], unfenced: false },
    ...changes,
  });
  broker.submit(one, []);
  return one;
}

function isOver(one: Submission): Promise<boolean> {
  const say = (message: string): void => void said.push(message);
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
  return closeIfOver(one, { broker, log, signal: new AbortController().signal });
}

const done = (...indices: readonly number[]): void => {
  for (const index of indices) stored.record({ index: String(index), attempt: 1, seq: 1, kind: 'done' });
};

it('is, when the store has every index as done; and that is told', async () => {
  done(0, 1, 2);
  const one = given({ notify: { kind: 'command', command: 'true' } });
  expect(await isOver(one)).toBe(true);
  expect(broker.queue('melt').submission.overMs).toBeDefined();
  expect(broker.notices).toEqual([{ submission: 'melt', event: 'all-done' }]);
});

it('is not, when some are neither done nor in the queue: they are put there again', async () => {
  done(1);
  expect(await isOver(given())).toBe(false);
  expect(broker.waitingIn('melt')).toEqual([0, 2]);
  expect(broker.queue('melt').submission.overMs).toBeUndefined();
});

it('is not, while one is at work in some attempt; one that gives no sign of life is put back', async () => {
  done(1, 2);
  const one = given();
  stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
  expect(await isOver(one)).toBe(false);
  expect(broker.waitingIn('melt')).toEqual([]);
  stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' }, Date.now() - 2 * STALE_AFTER_MS);
  expect(await isOver(one)).toBe(false);
  expect(broker.waitingIn('melt')).toEqual([0]);
});

it('cannot put back what only its job knew, and says what to do', async () => {
  done(0, 1);
  expect(await isOver(given({ jobsHoldTask: true }))).toBe(false);
  expect(said).toEqual(['melt: 1 of its tasks are neither done nor in the queue']);
});

it('is by the queue alone, where only each run can say what is done (--run)', async () => {
  expect(await isOver(given({ runId: 'a' }))).toBe(true);
});
