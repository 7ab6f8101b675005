// One schedule's world: its time, its choices, its kernel, its stores. What stands in for Node and libc finds the world
// that runs now here: there is one at a time.
import { tellListeners } from './listeners.ts';
import { type Event, Scheduler } from './scheduler.ts';
import { Kernel } from './kernel.ts';
import { Dead, type SimProcess } from './process.ts';
import { Random } from './random.ts';

/** The time of day at which every schedule begins. */
const EPOCH_MS = 1_767_225_600_000;
/** At so many of the sidecar's system calls the task takes its next step, if that is due so soon. */
const PREEMPTED = 0.02;
const EARLY_MS = 100;
/** Until a signal is handled. */
const SIGNAL_MS = 0.05;
/** What performance.now() was then. */
const UP_MS = 1000;

export interface WorldOptions {
  readonly seed: number;
  /** How coarse the times of files are, ms: a tick of the kernel before Linux 6.13, then 0. */
  readonly tickMs: number;
  readonly mostQueuedEvents: number;
  readonly osRelease: string;
  readonly trace: ((line: string) => void) | undefined;
}

export class World {
  readonly scheduler = new Scheduler();
  readonly random: Random;
  readonly kernel: Kernel;
  readonly counts = new Map<string, number>();
  readonly osRelease: string;
  /** The pid that each process has given its own: what code without a process sees. */
  readonly outside: SimProcess;
  /** Told of a process that makes calls without end while no time goes by. */
  onSpin = (_process: SimProcess): void => undefined;
  /** Its steps await nothing. */
  task: SimProcess | undefined;
  readonly #trace: ((line: string) => void) | undefined;

  constructor({ seed, tickMs, mostQueuedEvents, osRelease, trace }: WorldOptions) {
    this.random = new Random(seed);
    this.osRelease = osRelease;
    this.#trace = trace;
    this.kernel = new Kernel({
      nowMs: () => this.scheduler.nowMs,
      nowNs: () =>
        tickMs === 0
          ? BigInt(Math.floor(this.timeOfDayMs * 1e6))
          : BigInt(Math.floor(this.timeOfDayMs / tickMs) * tickMs) * 1_000_000n,
      mostQueuedEvents,
      count: (what) => this.count(what),
      spins: (process) => this.onSpin(process),
      childDied: (parent) =>
        void this.scheduler.at(this.nowMs + SIGNAL_MS, parent, () =>
          tellListeners(parent, 'SIGCHLD', 'SIGCHLD'),
        ),
    });
    this.outside = this.kernel.spawn({ parent: undefined, name: 'outside' });
  }

  get nowMs(): number {
    return this.scheduler.nowMs;
  }

  /** performance.now() */
  get upMs(): number {
    return UP_MS + this.scheduler.nowMs;
  }

  get timeOfDayMs(): number {
    return EPOCH_MS + this.scheduler.nowMs;
  }

  /** Whose code runs. */
  get process(): SimProcess {
    return this.scheduler.running ?? this.outside;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  get isTraced(): boolean {
    return this.#trace !== undefined;
  }

  trace(line: string): void {
    this.#trace?.(`${this.nowMs.toFixed(3).padStart(12)}  ${line}`);
  }

  /** A system call of the process that runs now: one moment. */
  call<T>(act: (process: SimProcess) => T): T {
    const { process } = this;
    this.kernel.enter(process);
    if (process.name === 'sidecar' && this.random.chance(PREEMPTED)) this.#preempt();
    return act(process);
  }

  /** The task goes on while the sidecar is between two system calls. */
  #preempt(): void {
    const task = this.task;
    if (task?.isAlive === true && this.scheduler.runEarly(task, EARLY_MS))
      this.count('the task goes on between two calls');
  }

  /** The same in libuv's pool: some time later, in any order. */
  callLater<T>(act: (process: SimProcess) => T): Promise<T> {
    const { process } = this;
    if (!process.isAlive) return Promise.reject(new Dead());
    return new Promise((resolve, reject) => {
      this.after(this.diskMs(), () => {
        try {
          resolve(this.call(act));
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        }
      });
    });
  }

  after(ms: number, act: () => void): Event {
    return this.scheduler.at(this.nowMs + ms, this.scheduler.running, act);
  }

  /** How long a call to a disk takes, most of the time. */
  diskMs(): number {
    return this.random.chance(0.01) ? this.random.ms(1, 200) : 0.02 + 0.2 * this.random.next();
  }
}

let current: World | undefined;

export function theWorld(): World {
  if (current === undefined) throw new Error('there is no world now');
  return current;
}

/** Also before the first world: modules look at a clock when they are loaded. */
export function timesNow(): { readonly upMs: number; readonly timeOfDayMs: number } {
  return current ?? { upMs: UP_MS, timeOfDayMs: EPOCH_MS };
}

/** The same of who asks. */
export function pidNow(): number {
  return current?.process.pid ?? 1;
}

export function enterWorld(world: World | undefined): void {
  current = world;
}
