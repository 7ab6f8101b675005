// The tasks of a worker: what it takes, and what the queue hears of each end. Its tasks are only told about; the engine is one
// in memory.
import { afterEach, expect, it } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import type { Submission } from '../../../src/model/many/submission.ts';
import { clockMs } from '../../../src/native/clock.ts';
import { Board } from '../../../src/many/queue/board.ts';
import { type Held, openHeld } from '../../../src/many/queue/held.ts';
import type { QueueTask } from '../../../src/many/queue/ends.ts';
import { QueueSource } from '../../../src/many/queue/source.ts';
import { Runner } from '../../../src/many/runner.ts';
import type { Push, Slot, SlotEnd } from '../../../src/many/slot.ts';
import { until } from '../../e2e/support.ts';
import { MemoryBroker } from './memory-broker.ts';
import { submission } from './submissions.ts';

const GIB = 2 ** 30;

interface FakeSlot extends Slot {
  readonly task: QueueTask;
  readonly told: Push[];
  finish(kind: SlotEnd['kind'], status?: number): void;
}

function fakeSlot(task: QueueTask): FakeSlot {
  const ended = newDeferred<SlotEnd>();
  const told: Push[] = [];
  return {
    index: task.number,
    task,
    told,
    startedMs: clockMs(),
    ended: ended.promise,
    get isEnding() {
      return told.length > 0;
    },
    usedBytes: () => GIB,
    end: (how) => void told.push(how),
    noticed: () => undefined,
    signal: () => undefined,
    finish: (kind, status = kind === 'done' ? 0 : 1) =>
      ended.resolve({
        kind,
        status,
        why: undefined,
        atMs: clockMs(),
        runtimeMs: 1,
        peakBytes: GIB,
        outputBytes: 0,
      }),
  };
}

interface Bench {
  readonly broker: MemoryBroker;
  readonly board: Board;
  readonly source: QueueSource;
  readonly held: Held;
  readonly slots: FakeSlot[];
  readonly kept: number[];
  /** Numbers of tasks whose sidecars say that a further attempt would end the same way. */
  readonly inVain: Set<number>;
  readonly messages: string[];
  readonly over: Promise<void>;
}

let open: Bench | undefined;
afterEach(async () => {
  open?.source.end();
  for (const slot of open?.slots ?? []) slot.finish('again', 75);
  await open?.over;
  open?.held.close();
  open = undefined;
});

/** A machine of 4 cores and 16 GiB with a GPU. */
function bench(submissions: readonly (readonly [Partial<Submission>, readonly number[]])[]): Bench {
  const broker = new MemoryBroker();
  for (const [changes, indices] of submissions)
    broker.submit(submission({ memoryBytes: GIB, ...changes }), indices);
  const slots: FakeSlot[] = [];
  const kept: number[] = [];
  const inVain = new Set<number>();
  const messages: string[] = [];
  const say = (message: string): void => void messages.push(message);
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
  const board = new Board({
    broker,
    ability: { capabilities: new Set(['gpu']), whyNever: () => undefined },
    readiness: () => ({ kind: 'ready' }),
    log,
  });
  const held = openHeld({ broker, lockMs: 40, nameOf: ({ submission: name }) => name, log });
  const source = new QueueSource({
    broker,
    board,
    held,
    scratch: {
      prepare: () => Promise.resolve(),
      remove: () => Promise.resolve(),
      keep: (number) => {
        kept.push(number);
        return [`/scratch/${number}.failed`];
      },
      isUnsaved: () => false,
      isInVain: (number) => inVain.has(number),
      setAside: (number) => `/scratch/${number}.unsaved-1`,
      workdirOf: (number) => `/scratch/${number}`,
      logOf: (number) => `/scratch/${number}.log`,
    },
    open: (task) => {
      const slot = fakeSlot(task);
      slots.push(slot);
      return slot;
    },
    argvOf: () => ['true'],
    joblog: undefined,
    log,
    changed: () => runner.wake(),
  });
  const machine = {
    cores: 4,
    memoryBytes: 16 * GIB,
    now: () => ({ availableBytes: 15 * GIB, psiFullPercent: 0, load: 0 }),
  };
  const runner = new Runner({ source, machine, jobs: Infinity, maxLoad: undefined, log, lookEveryMs: 5 });
  open = { broker, board, source, held, slots, kept, inVain, messages, over: runner.run() };
  return open;
}

const namesOf = ({ slots }: Bench): readonly string[] =>
  slots.map(({ task }) => `${task.submission.name} ${task.task.index}`);

it('takes as many as fit, of the most urgent submission first, and only of those that it can run', async () => {
  const here = bench([
    [{ name: 'mesh', capabilities: ['openfoam'], priority: 9 }, [0, 1]],
    [{ name: 'melt' }, [0, 1, 2, 3, 4]],
    [{ name: 'urgent', priority: 1, capabilities: ['gpu'] }, [7]],
  ]);
  await here.board.look();
  await until(() => here.slots.length === 4, 'four run');
  expect(namesOf(here)).toEqual(['urgent 7', 'melt 0', 'melt 1', 'melt 2']);
  expect(here.broker.waitingIn('mesh')).toEqual([0, 1]);
  expect(here.messages.join('\n')).toContain('mesh is left to other workers: it needs openfoam');
});

it('never waits behind a task that does not fit now', async () => {
  const here = bench([
    [{ name: 'small', cores: 2 }, [0]],
    [{ name: 'large', cores: 4, priority: 5 }, [0]],
    [{ name: 'other', cores: 2, submittedMs: 5000 }, [0]],
  ]);
  // Both come while a small one runs.
  const late = ['large', 'other'].map((name) => here.broker.queue(name).waiting);
  const jobs = late.map((waiting) => waiting.splice(0));
  await here.board.look();
  await until(() => here.slots.length === 1, 'the first runs');
  late.forEach((waiting, at) => waiting.push(...(jobs[at] ?? [])));
  await here.board.look();
  await until(() => here.slots.length === 2, 'another one runs beside it');
  expect(namesOf(here)).toEqual(['small 0', 'other 0']);
  expect(here.broker.waitingIn('large')).toEqual([0]);
});

it('tells the queue how each ended', async () => {
  const here = bench([[{ retries: 1 }, [0, 1, 2, 3]]]);
  await here.board.look();
  await until(() => here.slots.length === 4, 'all run');
  const [done, failing, preempted, fenced] = here.slots;
  here.source.pause(true);
  done?.finish('done');
  failing?.finish('failed', 3);
  preempted?.finish('again', 75);
  fenced?.finish('fenced', 76);
  const queue = here.broker.queue('melt');
  await until(() => queue.running.size === 0, 'all have ended');
  expect(new Set(queue.done)).toEqual(new Set([0, 3]));
  // What was told to end stands in front, what failed behind all.
  expect(here.broker.waitingIn('melt')).toEqual([2, 1]);
  here.source.pause(false);
  await here.board.look();
  await until(() => here.slots.length === 6, 'both run again');
  here.slots[5]?.finish('failed', 3);
  await until(() => queue.failed.length === 1, 'it has failed');
  expect(queue.failed[0]?.reason).toMatch(/^failed with exit status 3; kept on .*: \/scratch\/6\.failed$/);
  expect(here.kept).toContain(6);
});

it('tries nothing again that would end the same way', async () => {
  const here = bench([[{ retries: 3 }, [0]]]);
  await here.board.look();
  await until(() => here.slots.length === 1, 'it runs');
  here.inVain.add(here.slots[0]?.task.number ?? 0);
  here.slots[0]?.finish('failed', 74);
  const queue = here.broker.queue('melt');
  await until(() => queue.failed.length === 1, 'it has failed');
  expect(queue.failed[0]?.reason).toContain('(exit status 74), and a retry would end the same way; kept on ');
});

it('tells what ended while the queue was away when it is back', async () => {
  const here = bench([[{}, [0]]]);
  await here.board.look();
  await until(() => here.slots.length === 1, 'it runs');
  here.broker.isAway = true;
  here.slots[0]?.finish('done');
  await until(() => here.source.isIdle, 'the worker is free');
  expect(here.broker.queue('melt').done).toEqual([]);
  here.broker.isAway = false;
  await until(() => here.broker.queue('melt').done.length === 1, 'the queue knows it');
});

it('ends no task because its lock is gone, and takes nothing back that another has', async () => {
  const here = bench([[{}, [0]]]);
  await here.board.look();
  await until(() => here.slots.length === 1, 'it runs');
  here.source.pause(true);
  here.broker.loseLocks('melt');
  await until(() => here.messages.some((one) => one.includes("as nobody's")), 'it is said');
  expect(here.slots[0]?.told).toEqual([]);
  here.slots[0]?.finish('done');
  await until(() => here.source.isIdle, 'it has ended');
  expect(here.broker.queue('melt').done).toEqual([]);
  // Whoever takes it finds it done in the store.
  expect(here.broker.waitingIn('melt')).toEqual([0]);
});

it('ends the tasks of a cancelled submission after a checkpoint, and gives none back', async () => {
  const here = bench([[{}, [0, 1]]]);
  await here.board.look();
  await until(() => here.slots.length === 2, 'both run');
  const queue = here.broker.queue('melt');
  queue.submission = { ...queue.submission, cancelledMs: 1 };
  await here.board.look();
  here.source.push('again', here.board.toBeEnded());
  expect(here.slots.map(({ told }) => told)).toEqual([['again'], ['again']]);
  for (const slot of here.slots) slot.finish('again', 75);
  await until(() => queue.running.size === 0, 'both have ended');
  expect(here.broker.waitingIn('melt')).toEqual([]);
});

it('takes nothing while it is paused, and gives back what it has taken and not started', async () => {
  const here = bench([[{}, [0, 1]]]);
  here.source.pause(true);
  await here.board.look();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(here.slots).toEqual([]);
  expect(here.broker.queue('melt').running.size).toBe(0);
  here.source.pause(false);
  await until(() => here.slots.length === 2, 'both run');
});

it('fails a job that it cannot read, and goes on with the next', async () => {
  const here = bench([[{}, [0, 1]]]);
  const { waiting } = here.broker.queue('melt');
  waiting[0] = { task: { format: 1, index: -5 } as never, failedBefore: 0 };
  await here.board.look();
  await until(() => here.slots.length === 1, 'the other one runs');
  expect(here.broker.queue('melt').failed[0]?.reason).toContain('cannot be read');
});

it('tells once that a task of a submission with --notify has failed', async () => {
  const here = bench([[{ notify: { kind: 'command', command: 'true' } }, [0, 1]]]);
  await here.board.look();
  await until(() => here.slots.length === 2, 'both run');
  for (const slot of here.slots) slot.finish('failed', 3);
  await until(() => here.broker.queue('melt').failed.length === 2, 'both have failed');
  await until(() => here.broker.notices.length > 0, 'it is told');
  expect(here.broker.notices).toEqual([{ submission: 'melt', event: 'failed' }]);
});
