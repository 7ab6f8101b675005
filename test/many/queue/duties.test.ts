// What a worker does beside its tasks: when it ends by itself.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { Board } from '../../../src/many/queue/board.ts';
import { doDuties } from '../../../src/many/queue/duties.ts';
import type { Held } from '../../../src/many/queue/held.ts';
import type { QueueSource } from '../../../src/many/queue/source.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import { until } from '../../e2e/support.ts';
import { MemoryBroker } from './memory-broker.ts';
import { submission } from './submissions.ts';

let broker: MemoryBroker;
let stop: AbortController;
let duties: Promise<void> | undefined;
const said: string[] = [];
beforeEach(() => {
  broker = new MemoryBroker();
  stop = new AbortController();
  said.length = 0;
});
afterEach(async () => {
  stop.abort();
  await duties;
});

/** A worker that runs nothing, and what it was told. */
function begin(idleTimeoutMs: number | undefined): { ended: number; pushed: ReadonlySet<string>[] } {
  const told = { ended: 0, pushed: [] as ReadonlySet<string>[] };
  const say = (message: string): void => void said.push(message);
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
  const board = new Board({
    broker,
    ability: { capabilities: new Set(), whyNever: () => undefined },
    readiness: () => ({ kind: 'ready' }),
    log,
  });
  const source = {
    isIdle: true,
    end: () => {
      told.ended += 1;
    },
    push: (_: string, names: ReadonlySet<string>) => void told.pushed.push(names),
  } as unknown as QueueSource;
  const held = { submissions: () => new Set<string>() } as unknown as Held;
  const ownChildren = new Set<number>();
  const options = {
    broker,
    board,
    source,
    held,
    log,
    env: {},
    ownChildren,
    looked: () => undefined,
    isKept: () => false,
  };
  duties = doDuties({ ...options, idleTimeoutMs }, stop.signal);
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

it('ends what runs of a cancelled submission', async () => {
  broker.submit(submission({ cancelledMs: 1 }), []);
  const told = begin(undefined);
  await until(() => told.pushed.length > 0, 'its tasks are told');
  expect([...(told.pushed[0] ?? [])]).toEqual(['melt']);
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
