// The runner alone: its tasks are only told about, on a machine whose figures the test says.
import { expect, it } from 'vitest';
import type { Log } from '../../src/log/log.ts';
import { Plan } from '../../src/model/many/plan.ts';
import { newDeferred } from '../../src/model/waiting.ts';
import { clockMs } from '../../src/native/clock.ts';
import type { MachineNow } from '../../src/many/machine.ts';
import { Runner, type TaskSource, type TooLarge } from '../../src/many/runner.ts';
import type { Push, Slot, SlotEnd } from '../../src/many/slot.ts';
import { until } from '../e2e/support.ts';

const GIB = 2 ** 30;

interface FakeSlot extends Slot {
  usedNow: number;
  /** How often its processes were looked at. */
  reads: number;
  readonly told: Push[];
  finish(kind: SlotEnd['kind']): void;
}

function fakeSlot(index: number): FakeSlot {
  const ended = newDeferred<SlotEnd>();
  const told: Push[] = [];
  let isNoticed = false;
  const slot: FakeSlot = {
    index,
    startedMs: clockMs(),
    ended: ended.promise,
    told,
    usedNow: GIB,
    reads: 0,
    get isEnding() {
      return isNoticed || told.length > 0;
    },
    usedBytes: () => {
      slot.reads += 1;
      return slot.usedNow;
    },
    end: (how) => void told.push(how),
    noticed: () => {
      isNoticed = true;
    },
    signal: () => undefined,
    finish: (kind) =>
      ended.resolve({
        kind,
        status: kind === 'done' ? 0 : 75,
        why: undefined,
        atMs: clockMs(),
        runtimeMs: 1,
        peakBytes: slot.usedNow,
        outputBytes: 0,
      }),
  };
  return slot;
}

interface Bench {
  readonly runner: Runner;
  readonly plan: Plan;
  readonly over: Promise<void>;
  /** Of those that run. */
  readonly slots: ReadonlyMap<number, FakeSlot>;
  readonly tooLarge: Map<number, TooLarge>;
  readonly messages: string[];
  now: MachineNow;
  /** How often it was asked for. */
  looks: number;
}

interface BenchOptions {
  readonly tasks: number;
  /** `learn`: it is not said. */
  readonly memoryBytes?: number | 'learn';
  readonly maxLoad?: number;
  readonly load?: number;
  readonly jobs?: number;
  /** The source cannot take the end of this one. */
  readonly failsAt?: number;
}

/** A machine of 4 cores and 16 GiB, whose tasks say that they need 1 GiB. */
function bench({
  tasks,
  memoryBytes = GIB,
  maxLoad,
  load = 0,
  jobs = Infinity,
  failsAt,
}: BenchOptions): Bench {
  const slots = new Map<number, FakeSlot>();
  const tooLarge = new Map<number, TooLarge>();
  const messages: string[] = [];
  const plan = new Plan({
    indices: { ranges: [{ first: 0, last: tasks - 1, step: 1 }] },
    retries: 0,
    halt: { kind: 'never' },
  });
  const source: TaskSource = {
    next: () => {
      const index = plan.next();
      return index === undefined
        ? undefined
        : { index, needs: { cores: 1, memoryBytes: memoryBytes === 'learn' ? undefined : memoryBytes } };
    },
    nameOf: (index) => `index ${index}`,
    start: (index) => {
      plan.started(index, clockMs());
      const slot = fakeSlot(index);
      slots.set(index, slot);
      return Promise.resolve(slot);
    },
    ended: (slot, end, large) => {
      slots.delete(slot.index);
      if (slot.index === failsAt) return Promise.reject(new Error('no room'));
      if (large !== undefined) tooLarge.set(slot.index, large);
      plan.ended(slot.index, large === undefined ? end : { ...end, kind: 'final' });
      return Promise.resolve();
    },
    refused: (index, why) => {
      messages.push(why);
      plan.started(index, 0);
      plan.ended(index, { kind: 'final', status: 64, atMs: 0 });
    },
    halting: () => plan.halting(),
    isOver: () => plan.isOver(),
  };
  const say = (message: string): void => void messages.push(message);
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
  const bench: Omit<Bench, 'over' | 'runner'> = {
    plan,
    slots,
    tooLarge,
    messages,
    now: { availableBytes: 15 * GIB, psiFullPercent: 0, load },
    looks: 0,
  };
  const now = (): MachineNow => {
    bench.looks += 1;
    return bench.now;
  };
  const machine = { cores: 4, memoryBytes: 16 * GIB, now };
  const runner = new Runner({ source, machine, jobs, maxLoad, log, lookEveryMs: 5 });
  return Object.assign(bench, { runner, over: runner.run() });
}

it('starts as many as there are cores, and the next when one ends', async () => {
  const { slots, plan, over } = bench({ tasks: 6 });
  await until(() => slots.size === 4, 'four run');
  expect([...slots.keys()]).toEqual([0, 1, 2, 3]);
  slots.get(2)?.finish('done');
  await until(() => slots.has(4), 'the next one runs');
  expect(slots.size).toBe(4);
  while (!plan.isOver()) {
    for (const slot of slots.values()) slot.finish('done');
    await new Promise((resolve) => setImmediate(resolve));
  }
  await over;
  expect(plan.counts().done).toBe(6);
});

it('gives the youngest back when memory runs short, and starts it again when there is room', async () => {
  const b = bench({ tasks: 3 });
  await until(() => b.slots.size === 3, 'three run');
  b.now = { availableBytes: 100 * 2 ** 20, psiFullPercent: 0, load: 0 };
  await until(() => (b.slots.get(2)?.told.length ?? 0) > 0, 'the youngest is told to end');
  expect(b.slots.get(0)?.told).toEqual([]);
  expect(b.slots.get(1)?.told).toEqual([]);
  b.now = { availableBytes: 8 * GIB, psiFullPercent: 0, load: 0 };
  b.slots.get(2)?.finish('again');
  await until(() => b.slots.has(2) && b.slots.get(2)?.told.length === 0, 'it runs again');
  expect(b.messages.join('\n')).toContain('index 2 ends, and goes on later');
  for (const slot of b.slots.values()) slot.finish('done');
  await b.over;
  expect(b.plan.verdict()).toBe(0);
});

it('never gives the last one back: one that is too large alone fails, and says what it needed', async () => {
  const b = bench({ tasks: 1 });
  await until(() => b.slots.size === 1, 'it runs');
  const [slot] = b.slots.values();
  if (slot !== undefined) slot.usedNow = 15.9 * GIB;
  b.now = { availableBytes: 10 * 2 ** 20, psiFullPercent: 80, load: 0 };
  await until(() => (slot?.told.length ?? 0) > 0, 'it is told to end');
  slot?.finish('again');
  await b.over;
  expect(b.tooLarge.get(0)).toMatchObject({ limitBytes: 16 * GIB });
  expect(b.plan.counts()).toMatchObject({ failed: 1, waiting: 0 });
});

it('reads what many tasks use seldom, unless their peaks are to be learned', async () => {
  const said = bench({ tasks: 6 });
  await until(() => said.slots.size === 4, 'four run');
  const { looks } = said;
  const reads = said.slots.get(0)?.reads ?? 0;
  await until(() => said.looks >= looks + 40, 'it has looked 40 times');
  // At each look it would be 40; how many fit in between depends on how busy the machine is.
  expect((said.slots.get(0)?.reads ?? 0) - reads).toBeLessThan(20);

  const learning = bench({ tasks: 2, memoryBytes: 'learn' });
  await until(() => learning.slots.size === 1, 'the first one runs alone');
  await until(() => (learning.slots.get(0)?.reads ?? 0) >= 10, 'it is read at each look');

  for (const b of [said, learning]) {
    b.plan.stop('now');
    b.runner.push('kill');
    for (const slot of b.slots.values()) slot.finish('again');
    await b.over;
  }
});

it('refuses a task that no machine of this size can run', async () => {
  const b = bench({ tasks: 2, memoryBytes: 64 * GIB });
  await b.over;
  expect(b.messages[0]).toMatch(
    /^it needs 64.0 GiB of memory \(--memory\), and this machine has 1\d\.\d GiB for tasks$/,
  );
  expect(b.plan.counts().failed).toBe(2);
});

it('starts no other above the load of --max-load, and always one', async () => {
  const b = bench({ tasks: 2, maxLoad: 2, load: 7 });
  await until(() => b.slots.size === 1, 'one runs');
  const { looks } = b;
  await until(() => b.looks >= looks + 3, 'it has looked again');
  expect(b.slots.size).toBe(1);
  b.slots.get(0)?.finish('done');
  await until(() => b.slots.has(1), 'the other one runs');
  b.slots.get(1)?.finish('done');
  await b.over;
});

it('tells all tasks to end, harder each time, also those that start meanwhile', async () => {
  const b = bench({ tasks: 2 });
  await until(() => b.slots.size === 2, 'two run');
  b.plan.stop('now');
  b.runner.push('again');
  b.runner.push('again');
  b.runner.push('kill');
  b.runner.push('faster');
  expect(b.slots.get(0)?.told).toEqual(['again', 'kill']);
  for (const slot of b.slots.values()) slot.finish('again');
  await b.over;
  expect(b.plan.verdict()).toBe(75);
});

it('starts none while a notice stands, ends when all have ended, and goes on if it is withdrawn', async () => {
  const b = bench({ tasks: 6 });
  await until(() => b.slots.size === 4, 'four run');
  b.runner.noticed(true);
  b.slots.get(0)?.finish('again');
  await until(() => b.slots.size === 3, 'one has ended');
  b.runner.noticed(false);
  await until(() => b.slots.size === 4, 'it goes on');
  b.runner.noticed(true);
  for (const slot of b.slots.values()) slot.finish('again');
  await b.over;
  expect(b.plan.counts()).toMatchObject({ waiting: 6, running: 0 });
});

it('lets what runs end well before it fails itself, as the work directories go then', async () => {
  const { slots, over } = bench({ tasks: 9, failsAt: 0 });
  let failed: unknown;
  const settled = over.catch((error: unknown) => (failed = error));
  await until(() => slots.size === 4, 'four run');
  slots.get(0)?.finish('done');
  await until(() => [...slots.values()].every(({ told }) => told.includes('again')), 'all are told to end');
  expect([...slots.keys()]).toEqual([1, 2, 3]);
  expect(failed).toBeUndefined();
  for (const slot of slots.values()) slot.finish('again');
  await settled;
  expect(failed).toEqual(new Error('no room'));
});

it.each([
  ['by cores', { jobs: 6 }, [/^4 tasks at once and not 6 \(--jobs\): each takes 1 core, .* has 4$/]],
  [
    'by memory',
    { jobs: 6, memoryBytes: 6 * GIB },
    [/^2 tasks at once and not 6 \(--jobs\): another one takes 6\.0 GiB of memory/],
  ],
  ['never, as --jobs is reached', { jobs: 2 }, []],
  ['never, as nobody has asked for more', {}, []],
])('says once that fewer run than --jobs asks for: %s', async (_, options, said) => {
  const { plan, slots, messages, over } = bench({ tasks: 9, ...options });
  while (!plan.isOver()) {
    for (const slot of slots.values()) slot.finish('done');
    await new Promise((resolve) => setImmediate(resolve));
  }
  await over;
  expect(messages.filter((message) => message.includes('--jobs'))).toEqual(
    said.map((pattern) => expect.stringMatching(pattern) as unknown),
  );
});
