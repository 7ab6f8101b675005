// What a worker does beside its tasks: when it ends by itself, what it tells, and when a submission is over.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { STALE_AFTER_MS } from '../../../src/array/state.ts';
import type { Log } from '../../../src/log/log.ts';
import { Board } from '../../../src/many/board.ts';
import { BrokerAway } from '../../../src/many/broker.ts';
import { JobLeases } from '../../../src/many/leases.ts';
import { closeIfOver, keepHouse } from '../../../src/many/queue/housekeeping.ts';
import type { Submission } from '../../../src/model/many/submission.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import { openStoreOfRecords, type StoreOfRecords } from '../../array/store-of-records.ts';
import { until } from '../../e2e/support.ts';
import { submission } from '../submissions.ts';
import { TestQueue } from '../test-queue.ts';

let broker: TestQueue;
let stop: AbortController;
let house: ReturnType<typeof keepHouse> | undefined;
const said: string[] = [];
const say = (message: string): void => void said.push(message);
const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
beforeEach(() => {
  broker = new TestQueue();
  stop = new AbortController();
  said.length = 0;
});
afterEach(async () => {
  stop.abort();
  await house;
});

/** A worker that runs nothing, and how often it was told to end. Its runner is busy while `isLooking`. */
function begin(idleTimeoutMs: number | undefined, { isLooking = false } = {}): { ended: number } {
  const told = { ended: 0 };
  const board = new Board({
    broker,
    ability: { capabilities: new Set(), whyNever: () => undefined },
    readiness: () => ({ kind: 'ready' }),
    log,
  });
  const runner = { isIdle: !isLooking, running: () => [], end: () => void (told.ended += 1) };
  const worker = { board, leases: new JobLeases(broker, log), runner, log, ownChildren: new Set<number>() };
  house = keepHouse({ broker, worker, env: {}, idleTimeoutMs, isKept: () => false }, stop.signal);
  return told;
}

it('ends when there was nothing to do for the time of --idle-timeout', async () => {
  const told = begin(1);
  await until(() => told.ended > 0, 'it ends');
  expect(said.join()).toContain('--idle-timeout');
});

it('waits as long as there is something to take', async () => {
  broker.submit(submission(), [0]);
  const told = begin(1);
  await until(() => broker.looks > 2, 'it has looked');
  expect(told.ended).toBe(0);
});

it('waits for a task that comes back because its worker died, if it can run that', async () => {
  for (const [name, capabilities] of [
    ['melt', []],
    ['gpu', ['gpu']],
  ] as const) {
    broker.submit(submission({ name, capabilities: [...capabilities] }), [0]);
    broker.lost.add(name);
    await broker.take(name); // oxlint-disable-line no-await-in-loop -- two
  }
  const told = begin(1);
  await until(() => broker.looks > 2, 'it has looked');
  expect(told.ended).toBe(0);
  broker.lost.delete('melt');
  await until(() => told.ended > 0, 'it ends');
});

it('does not end before it knows whether a submission is over, of which nothing is left', async () => {
  // Of a run id only the queue tells: no store is asked.
  broker.submit(submission({ runId: 'r1' }), []);
  const stored = newDeferred<void>();
  const put = broker.put.bind(broker);
  broker.put = (one) => stored.promise.then(() => put(one));
  const told = begin(1);
  await until(() => broker.looks > 2, 'it has looked');
  expect(told.ended).toBe(0);
  stored.resolve();
  await until(() => told.ended > 0, 'it ends');
  expect(broker.queue('melt').submission.overMs).toBeDefined();
});

it('ends when it is drained', async () => {
  broker.isDrainedNow = true;
  const told = begin(undefined);
  await until(() => told.ended > 0, 'it ends');
  expect(said.join()).toContain('drained');
});

it('tells once that a task of a submission with --notify has failed', async () => {
  broker.submit(submission({ notify: { kind: 'command', command: 'true' } }), [0, 1]);
  for (const job of [await broker.take('melt'), await broker.take('melt')]) await job?.failed('why', true);
  begin(undefined);
  await until(() => broker.notices.length > 0, 'it is told');
  const { looks } = broker;
  await until(() => broker.looks > looks, 'it has looked again');
  expect(broker.notices).toEqual([{ submission: 'melt', event: 'failed' }]);
});

it('goes on while the queue is away', async () => {
  broker.isAway = true;
  const told = begin(undefined);
  await until(() => broker.looks > 0, 'it has looked');
  broker.isAway = false;
  broker.isDrainedNow = true;
  await until(() => told.ended > 0, 'it hears of it');
  // That it is away its connection says.
  expect(said.join()).not.toContain('cannot be looked at');
});

describe('a queue that cannot be seen', () => {
  const refused = new BrokerAway('NOPERM no permissions', {
    kind: 'refused',
    hint: 'the user must be allowed',
  });

  it.each([
    ['answers with an error', refused, 'the queue answers with an error: NOPERM'],
    ['does not answer', new BrokerAway('no answer within 10 s', { kind: 'silent' }), 'cannot be reached: no'],
    ['is lost', new BrokerAway('ECONNREFUSED'), 'the queue cannot be reached: ECONNREFUSED'],
  ])('that %s is no idle time: the worker ends with 69 and the reason', async (_, error, why) => {
    broker.error = error;
    // A runner whose looks take long is never idle.
    const told = begin(1, { isLooking: true });
    await until(() => told.ended > 0, 'it ends');
    stop.abort();
    const end = await house;
    expect(end?.status).toBe(69);
    expect(end?.message).toContain(why);
    expect(end?.hint).toBeDefined();
    expect(said.join()).not.toContain('nothing was left');
  });

  it('counts idle time again once it is seen again', async () => {
    broker.error = refused;
    const told = begin(3000);
    await until(() => broker.looks > 1, 'it has looked');
    broker.error = undefined;
    const seenAgainMs = performance.now();
    await until(() => told.ended > 0, 'it ends');
    // The time in which it could not be seen does not count. One millisecond for the rounding of the clocks.
    expect(performance.now() - seenAgainMs).toBeGreaterThanOrEqual(2999);
    stop.abort();
    expect(await house).toBeUndefined();
  });
});

describe('a submission of which nothing is left in the queue', () => {
  let stored: StoreOfRecords;
  beforeEach(async () => {
    stored = await openStoreOfRecords('a directory');
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

  async function isOver(one: Submission): Promise<boolean> {
    await closeIfOver(one, broker, { log, signal: stop.signal });
    return broker.queue('melt').submission.overMs !== undefined;
  }

  const done = (...indices: readonly number[]): void => {
    for (const index of indices) stored.record({ index: String(index), attempt: 1, seq: 1, kind: 'done' });
  };

  it('is over when the store has every index as done; and that is told', async () => {
    done(0, 1, 2);
    const one = given({ notify: { kind: 'command', command: 'true' } });
    expect(await isOver(one)).toBe(true);
    expect(broker.notices).toEqual([{ submission: 'melt', event: 'all-done' }]);
  });

  it('is not, when some are neither done nor in the queue: they are put there again', async () => {
    done(1);
    expect(await isOver(given())).toBe(false);
    expect(await broker.waitingIn('melt')).toEqual([0, 2]);
  });

  it('is not, while one is at work in some attempt; one that gives no sign of life is put back', async () => {
    done(1, 2);
    const one = given();
    stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' });
    expect(await isOver(one)).toBe(false);
    expect(await broker.waitingIn('melt')).toEqual([]);
    stored.record({ index: '0', attempt: 1, seq: 0, kind: 'started' }, Date.now() - 2 * STALE_AFTER_MS);
    expect(await isOver(one)).toBe(false);
    expect(await broker.waitingIn('melt')).toEqual([0]);
  });

  it('cannot get back what only its jobs knew: what to do is said', async () => {
    done(0, 1);
    expect(await isOver(given({ jobsHoldTask: true }))).toBe(false);
    expect(said).toEqual(['melt: 1 of its tasks are neither done nor in the queue']);
  });

  it('is over by the queue alone, where only each run can say what is done (--run)', async () => {
    expect(await isOver(given({ runId: 'a' }))).toBe(true);
  });
});
