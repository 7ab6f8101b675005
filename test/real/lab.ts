// A lab for one test: a real Redis, and machines that work on its queue. Each machine is a worker with a scratch directory of
// its own; it can be frozen, and lose its power, with all that runs on it.
import fs from 'node:fs';
import path from 'node:path';
import { childrenOf, killTree, openPlace, type Place, type Run } from '../e2e/support.ts';
import { openRedis, type RedisServer } from './redis.ts';

/** Short, so that what a dead machine held waits again soon. */
export const LOST_AFTER_MS = 6000;
const LOOK_EVERY_MS = 250;

export interface StatusJson {
  readonly submissions: readonly SubmissionJson[];
  readonly workers: readonly { readonly name: string; readonly capabilities: readonly string[] }[];
  readonly unable: readonly {
    readonly submission: string;
    readonly worker: string;
    readonly why: string;
  }[];
  readonly running: readonly { readonly index: number; readonly worker: string }[];
}

interface SubmissionJson {
  readonly name: string;
  readonly state: string;
  readonly waiting: number;
  readonly running: number;
  readonly failed: number;
}

export interface Machine {
  readonly worker: Run;
  readonly scratch: string;
  /** `capture worker pause` and `resume` of a person at this machine. */
  command(...words: readonly string[]): Promise<Run>;
  /** SIGSTOP to all that runs on it. */
  freeze(): void;
  /** SIGCONT to all of it. */
  wake(): void;
  /** SIGKILL to all of it. */
  losePower(): void;
  /** SIGTERM to the worker. */
  shutDown(): Promise<number>;
}

export interface Lab {
  readonly place: Place;
  readonly redis: RedisServer;
  readonly queue: readonly [string, string];
  /** `options` are those of its worker. */
  startMachine(...options: readonly string[]): Machine;
  /** Ended. */
  submit(name: string, options: readonly string[], task: readonly string[]): Promise<Run>;
  /** `capture queue <words>`, ended. */
  command(...words: readonly string[]): Promise<Run>;
  status(): Promise<StatusJson>;
  /** What is stored now as `result.dat`, by index. */
  results(): (index: number) => string;
  untilStatus(isSo: (now: StatusJson) => boolean, boundMs?: number): Promise<void>;
  /** Resolves when all submissions are in this state. */
  untilAll(state: string, boundMs?: number): Promise<void>;
  /** Resolves when the submission is as `isSo` says. */
  untilOne(name: string, isSo: (one: SubmissionJson) => boolean): Promise<void>;
  close(): Promise<void>;
}

export async function openLab(): Promise<Lab> {
  const place = openPlace({ below: '/dev/shm' });
  const redis = await openRedis(place.dir);
  const queue = ['--queue', redis.url('lab')] as const;
  let machines = 0;
  const ended = async (run: Run): Promise<Run> => {
    await run.status;
    return run;
  };
  const command = (...words: readonly string[]): Promise<Run> =>
    ended(place.capture(['queue', ...words, ...queue]));
  const status = async (): Promise<StatusJson> => {
    const run = await command('status', '--json');
    try {
      return JSON.parse(run.stdout()) as StatusJson;
    } catch {
      throw new Error(`capture queue status has not worked: ${run.stderr()}`);
    }
  };
  /** With the reasons of what has failed. */
  const details = async ({ submissions }: StatusJson): Promise<string> => {
    const shown = await Promise.all(submissions.map(({ name }) => command('status', name)));
    return shown.map((run) => run.stdout()).join('\n');
  };
  const untilStatus = async (isSo: (now: StatusJson) => boolean, boundMs = 60_000): Promise<void> => {
    const deadline = performance.now() + boundMs;
    for (;;) {
      const now = await status();
      if (isSo(now)) return;
      if (performance.now() > deadline) throw new Error(`not in time:\n${await details(now)}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
    }
  };
  return {
    place,
    redis,
    queue,
    startMachine: (...options) => {
      machines += 1;
      const dir = path.join(place.dir, `machine-${machines}`);
      return startMachine(place, dir, [...queue, ...options]);
    },
    submit: (name, options, task) =>
      ended(
        place.capture(['submit', ...queue, '--to', place.store, '--name', name, ...options, '--', ...task]),
      ),
    command,
    status,
    results: () => {
      const keys = new Set(place.keys());
      return (index) => {
        const key = `result.dat.${index}`;
        return place.text(keys.has(key) ? key : `${key}.zst`);
      };
    },
    untilStatus,
    untilAll: (state, boundMs = 120_000) =>
      untilStatus(({ submissions }) => submissions.every((one) => one.state === state), boundMs),
    untilOne: (name, isSo) =>
      untilStatus(({ submissions }) => submissions.some((one) => one.name === name && isSo(one))),
    close: async () => {
      place.close();
      await redis.close();
    },
  };
}

function startMachine(place: Place, dir: string, options: readonly string[]): Machine {
  const scratch = path.join(dir, 'scratch');
  const env = { XDG_RUNTIME_DIR: path.join(dir, 'run'), XDG_CONFIG_HOME: path.join(dir, 'conf') };
  for (const one of [scratch, ...Object.values(env)]) fs.mkdirSync(one, { recursive: true });
  // A default of whoever runs the worker is no part of what was submitted.
  fs.writeFileSync(path.join(env.XDG_CONFIG_HOME, 'capture.yaml'), 'namespace: of-the-machine\n');
  const lostAfter = `--lost-after=${LOST_AFTER_MS}ms`;
  const fixed = [`--scratch=${scratch}`, '--jobs=2', lostAfter, '--notice=none'];
  const worker = place.capture(['worker', ...fixed, ...options], env);
  return {
    worker,
    scratch,
    command: async (...words) => {
      const run = place.capture(['worker', ...words], env);
      await run.status;
      return run;
    },
    freeze: () => signalTree(worker.pid, 'SIGSTOP'),
    wake: () => signalTree(worker.pid, 'SIGCONT'),
    losePower: () => {
      // First nothing of it moves any more: the death of one process must not be news for another.
      signalTree(worker.pid, 'SIGSTOP');
      killTree(worker.pid);
    },
    shutDown: () => {
      worker.child.kill('SIGTERM');
      return worker.status;
    },
  };
}

/** The parent first: one that has stopped starts no more children. */
export function signalTree(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended by itself.
    return;
  }
  for (const child of childrenOf(pid)) signalTree(child, signal);
}
