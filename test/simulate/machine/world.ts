// The world of one schedule: its time, choices, kernel and stores. The replacements for Node and libc find the current
// world here: there is only one at a time.
import { tellListeners } from './listeners.ts';
import { type Event, Scheduler } from './scheduler.ts';
import { Kernel } from './kernel.ts';
import { Dead, type SimProcess } from './process.ts';
import { Random } from './random.ts';

/** The time of day at which every schedule begins. */
const EPOCH_MS = 1_767_225_600_000;
/** At this share of the sidecar's system calls the task takes its next step, if it is due that soon. */
const PREEMPTED = 0.02;
const EARLY_MS = 100;
/** The time until a signal is handled. */
const SIGNAL_MS = 0.05;
/** performance.now() at that time. */
const UP_MS = 1000;

export interface WorldOptions {
  readonly seed: number;
  /** The granularity of file times, ms: a tick of the kernel before Linux 6.13, then 0. */
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
  /** The share of a process's wake-ups that come late: more on a busy machine. */
  readonly lateWakes: number;
  /** A process for code that belongs to none. */
  readonly outside: SimProcess;
  /** Called for a process that makes calls without end while time stands still. */
  onSpin = (_process: SimProcess): void => undefined;
  /** The task, whose steps await nothing. */
  task: SimProcess | undefined;
  readonly #trace: ((line: string) => void) | undefined;
  #lastNs = { ofMs: -1, ns: 0n };

  constructor({ seed, tickMs, mostQueuedEvents, osRelease, trace }: WorldOptions) {
    this.random = new Random(seed);
    this.lateWakes = new Random(seed ^ 0x1a7e).chance(0.2) ? 0.3 : 0.02;
    this.osRelease = osRelease;
    this.#trace = trace;
    this.kernel = new Kernel({
      nowMs: () => this.scheduler.nowMs,
      nowNs: () => {
        // Several changes of one call have the same time.
        if (this.#lastNs.ofMs !== this.nowMs) this.#lastNs = { ofMs: this.nowMs, ns: this.#timeInNs(tickMs) };
        return this.#lastNs.ns;
      },
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

  #timeInNs(tickMs: number): bigint {
    return tickMs === 0
      ? BigInt(Math.floor(this.timeOfDayMs * 1e6))
      : BigInt(Math.floor(this.timeOfDayMs / tickMs) * tickMs) * 1_000_000n;
  }

  /** The process whose code runs. */
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

  /** A system call of the running process, which is atomic. */
  call<T>(act: (process: SimProcess) => T): T {
    const { process } = this;
    this.kernel.enter(process);
    if (process.name === 'sidecar' && this.random.chance(PREEMPTED)) this.#preempt();
    return act(process);
  }

  /** Lets the task go on between two system calls of the sidecar. */
  #preempt(): void {
    const task = this.task;
    if (task?.isAlive === true && this.scheduler.runEarly(task, EARLY_MS))
      this.count('the task goes on between two calls');
  }

  /** The same in libuv's thread pool: some time later, in any order. */
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

/** Works before the first world, too: modules read the clock when they are loaded. */
export function timesNow(): { readonly upMs: number; readonly timeOfDayMs: number } {
  return current ?? { upMs: UP_MS, timeOfDayMs: EPOCH_MS };
}

/** The same for the pid. */
export function pidNow(): number {
  return current?.process.pid ?? 1;
}

export function enterWorld(world: World | undefined): void {
  current = world;
}
