// The runner alone: its tasks are only told about, on a machine whose figures the test says.
import { expect, it } from 'vitest';
import type { Log } from '../../src/log/log.ts';
import { type TaskNeeds, whyNever } from '../../src/model/many/admission.ts';
import type { MachineNow } from '../../src/many/machine.ts';
import { Runner, type StartedTask, type TaskSource, type TooLarge } from '../../src/many/runner.ts';
import { until } from '../e2e/support.ts';
import { type FakeLauncher, fakeLauncher } from './fake-launcher.ts';

const GIB = 2 ** 30;

interface Task extends StartedTask {
  readonly index: number;
  readonly launcher: FakeLauncher;
}

interface Bench {
  readonly runner: Runner<Task>;
  readonly over: Promise<void>;
  /** Indices that wait: those that were given back first. */
  readonly waiting: number[];
  /** Of those that run. */
  readonly slots: Map<number, FakeLauncher>;
  readonly done: number[];
  readonly tooLarge: Map<number, TooLarge>;
  readonly messages: string[];
  /** Submissions whose tasks are to end. */
  readonly cancelled: Set<string>;
  now: MachineNow;
  /** How often it was asked for. */
  looks: number;
  /** What happens once the source was looked at. */
  looked: () => Promise<void>;
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

const CAUSE = { why: 'a test', reason: 'a test stops it' };

/** A machine of 4 cores and 16 GiB, whose tasks say that they need 1 GiB. */
function bench({
  tasks,
  memoryBytes = GIB,
  maxLoad,
  load = 0,
  jobs = Infinity,
  failsAt,
}: BenchOptions): Bench {
  const needs: TaskNeeds = { cores: 1, memoryBytes: memoryBytes === 'learn' ? undefined : memoryBytes };
  const messages: string[] = [];
  const bench = {
    waiting: Array.from({ length: tasks }, (_, index) => index),
    slots: new Map<number, FakeLauncher>(),
    done: [] as number[],
    tooLarge: new Map<number, TooLarge>(),
    messages,
    cancelled: new Set<string>(),
    now: { availableBytes: 15 * GIB, psiFullPercent: 0, load },
    looks: 0,
    looked: () => Promise.resolve(),
  };
  const { slots, waiting, done, tooLarge } = bench;
  /** How many waited at the last look. */
  let seen = 0;
  const source: TaskSource<Task> = {
    look: async () => {
      seen = waiting.length;
      await bench.looked();
      return new Map([...bench.cancelled].map((name) => [name, CAUSE]));
    },
    startNext: async (fits) => {
      if (seen === 0 || waiting.length === 0 || !fits(needs)) return undefined;
      const index = waiting.shift() ?? 0;
      const launcher = fakeLauncher();
      slots.set(index, launcher);
      return {
        index,
        name: `index ${index}`,
        submission: { name: index < 2 ? 'low' : 'high' },
        needs,
        launcher,
      };
    },
    ended: async ({ index }, end, large) => {
      slots.delete(index);
      if (index === failsAt) throw new Error('no room');
      if (large !== undefined) tooLarge.set(index, large);
      else if (end.kind === 'done') done.push(index);
      else waiting.unshift(index);
    },
    isDone: () => seen === 0 || waiting.length === 0,
  };
  const say = (message: string): void => void messages.push(message);
  const log = { debug: say, info: say, warn: say, error: say } as unknown as Log;
  const now = (): MachineNow => {
    bench.looks += 1;
    return bench.now;
  };
  const machine = { cores: 4, memoryBytes: 16 * GIB, now };
  const runner = new Runner({ source, machine, jobs, maxLoad, log, lookEveryMs: 5 });
  return Object.assign(bench, { runner, over: runner.run() });
}

/** All that run end well, until none is left. */
async function finishAll({ slots, over }: Bench): Promise<void> {
  const timer = setInterval(() => {
    for (const slot of slots.values()) slot.finish('done');
  }, 1);
  await over.finally(() => clearInterval(timer));
}

it('starts as many as there are cores, and the next when one ends', async () => {
  const b = bench({ tasks: 6 });
  const { slots } = b;
  await until(() => slots.size === 4, 'four run');
  expect([...slots.keys()]).toEqual([0, 1, 2, 3]);
  slots.get(2)?.finish('done');
  await until(() => slots.has(4), 'the next one runs');
  expect(slots.size).toBe(4);
  await finishAll(b);
  expect(b.done).toHaveLength(6);
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
  await finishAll(b);
  expect(b.done).toHaveLength(3);
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
  expect(b.tooLarge.get(0)).toEqual({ usedBytes: 15.9 * GIB, limitBytes: 16 * GIB });
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
    b.runner.stop('kill', CAUSE);
    for (const slot of b.slots.values()) slot.finish('again');
    await b.over;
  }
});

it('says why a task can never run on this machine, however idle it is', () => {
  const machine = {
    cores: 4,
    memoryBytes: 16 * GIB,
    now: () => ({ availableBytes: 0, psiFullPercent: 0, load: 9 }),
  };
  expect(whyNever({ cores: 1, memoryBytes: GIB }, machine)).toBeUndefined();
  expect(whyNever({ cores: 8, memoryBytes: GIB }, machine)).toBe(
    'it needs 8 cores (--cpus), and this machine has 4',
  );
  expect(whyNever({ cores: 1, memoryBytes: 64 * GIB }, machine)).toMatch(
    /^it needs 64.0 GiB of memory \(--memory\), and this machine has 1\d\.\d GiB for tasks$/,
  );
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
  b.runner.stop('checkpoint', CAUSE);
  b.runner.stop('checkpoint', CAUSE);
  b.runner.stop('kill', CAUSE);
  b.runner.stop('faster', CAUSE);
  expect(b.slots.get(0)?.told).toEqual(['checkpoint', 'kill']);
  for (const slot of b.slots.values()) slot.finish('again');
  await b.over;
  expect(b.waiting).toHaveLength(2);
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
  expect(b.waiting).toHaveLength(6);
});

it('lets what runs end well before it fails itself, as the work directories go then', async () => {
  const { slots, over } = bench({ tasks: 9, failsAt: 0 });
  let failed: unknown;
  const settled = over.catch((error: unknown) => (failed = error));
  await until(() => slots.size === 4, 'four run');
  slots.get(0)?.finish('done');
  await until(
    () => [...slots.values()].every(({ told }) => told.includes('checkpoint')),
    'all are told to end',
  );
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
  const b = bench({ tasks: 9, ...options });
  await finishAll(b);
  expect(b.messages.filter((message) => message.includes('--jobs'))).toEqual(
    said.map((pattern) => expect.stringMatching(pattern) as unknown),
  );
});

it('ends the tasks of what is cancelled, and no others', async () => {
  const b = bench({ tasks: 4 });
  await until(() => b.slots.size === 4, 'four run');
  b.cancelled.add('low');
  await until(() => (b.slots.get(1)?.told.length ?? 0) > 0, 'they are told');
  const { looks } = b;
  await until(() => b.looks >= looks + 3, 'it has looked again');
  expect([...b.slots.values()].map(({ told }) => told)).toEqual([['checkpoint'], ['checkpoint'], [], []]);
  b.cancelled.clear();
  await finishAll(b);
});

it('starts nothing while it is paused, and ends when it is told to', async () => {
  const b = bench({ tasks: 6 });
  await until(() => b.slots.size === 4, 'four run');
  b.runner.pause(true);
  b.slots.get(0)?.finish('done');
  await until(() => b.slots.size === 3, 'one has ended');
  const { looks } = b;
  await until(() => b.looks >= looks + 3, 'it has looked again');
  expect(b.slots.size).toBe(3);
  b.runner.pause(false);
  await until(() => b.slots.size === 4, 'it goes on');
  b.runner.end();
  await finishAll(b);
  expect(b.waiting).toEqual([5]);
});

it('lets what is frozen go on before it must checkpoint', async () => {
  const b = bench({ tasks: 1 });
  await until(() => b.slots.size === 1, 'it runs');
  const [slot] = b.slots.values();
  b.runner.freeze();
  b.runner.giveBack(() => CAUSE);
  b.runner.freeze();
  b.runner.stop('faster', CAUSE);
  expect(slot?.signals).toEqual(['SIGTSTP', 'SIGCONT', 'SIGTSTP', 'SIGCONT']);
  expect(slot?.told).toEqual(['checkpoint', 'faster']);
  await finishAll(b);
});

it('does not end before it has looked again after the last task: that may be tried again', async () => {
  const b = bench({ tasks: 1 });
  await until(() => b.slots.size === 1, 'it runs');
  const hasEnded = new Promise<void>((resolve) => {
    b.looked = async () => {
      b.looked = () => Promise.resolve();
      b.slots.get(0)?.finish('again');
      await until(() => b.runner.running().length === 0, 'it has ended');
      resolve();
    };
  });
  await hasEnded;
  await until(() => b.slots.size === 1, 'it runs again');
  await finishAll(b);
  expect(b.done).toEqual([0]);
});
