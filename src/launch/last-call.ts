// The time that is left after a notice that capture will be stopped: when it ends, when the task must be gone so that
// its last files can still be stored, and when the task is signalled. Each source can only shorten it. A source that
// withdraws its notice gives the time back.
import { drainReserveMs } from '../model/file/deadline.ts';
import { clockMs, type LongTimer, startTimer } from '../native/clock.ts';

/** A task that was not signalled earlier gets this long between the signal and SIGKILL; less in a short window. */
const SIGNAL_BEFORE_KILL_MS = 2000;
const SIGNAL_BEFORE_KILL_SHARE = 0.1;

interface LastCallOptions {
  readonly countdowns: Countdowns;
  /** True if the task runs, or if it may have been ended by the very event that is reported only now. */
  readonly isForTask: () => boolean;
  /** Called at the last moment to signal the task. */
  readonly signalTask: () => void;
  /** Called when the task's time is up. */
  readonly killTask: () => void;
  /** Called when the deadline has changed. */
  readonly changed: (deadlineMs: number | undefined) => void;
}

interface Announced {
  readonly beganAtMs: number;
  readonly deadlineMs: number;
  readonly isForTask: boolean;
  /** An absolute instant: suspending capture does not postpone it. */
  readonly isFixed: boolean;
}

export class LastCall {
  readonly #options: LastCallOptions;
  /** By source, in the order of their notices. */
  readonly #calls = new Map<string, Announced>();
  #isSignalled = false;
  #drainMs: number | undefined;
  #shortenedToMs = Infinity;
  #timer: Countdown | undefined;

  constructor(options: LastCallOptions) {
    this.#options = options;
  }

  /** True if one of the notices concerned the task. */
  preempted(): boolean {
    return [...this.#calls.values()].some(({ isForTask }) => isForTask);
  }

  /** The first source, for the record. */
  reason(): string | undefined {
    return [...this.#calls.keys()][0];
  }

  /** When capture will be killed, ms since the epoch; undefined: no notice. */
  deadlineMs(): number | undefined {
    return this.#nearest()?.deadlineMs;
  }

  /** When the task must be gone, ms since the epoch. */
  taskDeadlineMs(): number | undefined {
    const call = this.#nearest();
    if (call === undefined) return undefined;
    const { beganAtMs, deadlineMs } = call;
    return Math.min(this.#shortenedToMs, deadlineMs - drainReserveMs(deadlineMs - beganAtMs, this.#drainMs));
  }

  /** `from` announces the end at `deadlineMs`. Only its first announcement counts. */
  begin({ from, ...call }: Pick<Announced, 'deadlineMs' | 'isFixed'> & { readonly from: string }): void {
    if (this.#calls.has(from)) return;
    const isForTask = this.#options.isForTask();
    this.#change(() => this.#calls.set(from, { beganAtMs: clockMs(), isForTask, ...call }));
  }

  /** `from` withdraws its notice. No effect once the task was signalled. */
  withdraw(from: string): void {
    if (!this.#isSignalled && this.#calls.has(from)) this.#change(() => this.#calls.delete(from));
  }

  /** The task was signalled. */
  taskSignalled(): void {
    this.#isSignalled = true;
    this.#arm();
  }

  /** The measured time to send the task's last files, ms. */
  drainTakes(ms: number): void {
    this.#drainMs = ms;
    this.#arm();
  }

  /** The task gets at most this long from now on. */
  shorten(ms: number): void {
    this.#shortenedToMs = Math.min(this.#shortenedToMs, clockMs() + ms);
    this.#arm();
  }

  /** capture was suspended this long: a grace is extended by it. */
  lengthen(ms: number): void {
    this.#change(() => {
      this.#shortenedToMs += ms;
      for (const [from, call] of this.#calls) {
        if (call.isFixed) continue;
        const moved = { beganAtMs: call.beganAtMs + ms, deadlineMs: call.deadlineMs + ms };
        this.#calls.set(from, { ...call, ...moved });
      }
    });
  }

  #nearest(): Announced | undefined {
    return [...this.#calls.values()].toSorted((a, b) => a.deadlineMs - b.deadlineMs)[0];
  }

  /** After `act`, re-arms the timer and reports a new deadline. */
  #change(act: () => void): void {
    const before = this.deadlineMs();
    act();
    this.#arm();
    const deadlineMs = this.deadlineMs();
    if (deadlineMs !== before) this.#options.changed(deadlineMs);
  }

  #arm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const killAtMs = this.taskDeadlineMs();
    if (killAtMs === undefined) return;
    const tellFirst = !this.#isSignalled;
    const atMs = tellFirst ? killAtMs - this.#signalBeforeKillMs() : killAtMs;
    this.#timer = this.#options.countdowns.start(Math.max(0, atMs - clockMs()), () => {
      if (!tellFirst) return this.#options.killTask();
      this.#isSignalled = true;
      this.#options.signalTask();
      this.#arm();
    });
  }

  #signalBeforeKillMs(): number {
    const { beganAtMs = 0, deadlineMs = 0 } = this.#nearest() ?? {};
    return Math.min(SIGNAL_BEFORE_KILL_MS, (deadlineMs - beganAtMs) * SIGNAL_BEFORE_KILL_SHARE);
  }
}

interface Countdown {
  cancel(): void;
}

interface Running {
  readonly act: () => void;
  endsAtMs: number;
  timer: LongTimer | undefined;
}

/**
 * Timers that allow for job control: if the run is suspended, every timer ends that much later, so nothing is killed
 * for having slept. They do not keep the process alive.
 */
export class Countdowns {
  readonly #running = new Set<Running>();

  /** Runs `act` once after `ms`, unless everything is closed before. */
  start(ms: number, act: () => void): Countdown {
    const countdown: Running = { act, endsAtMs: clockMs() + ms, timer: undefined };
    this.#running.add(countdown);
    this.#arm(countdown);
    return {
      cancel: () => {
        countdown.timer?.cancel();
        this.#running.delete(countdown);
      },
    };
  }

  /** The run was suspended this long: every running countdown ends that much later. */
  lengthen(ms: number): void {
    for (const countdown of this.#running) {
      countdown.timer?.cancel();
      countdown.endsAtMs += ms;
      this.#arm(countdown);
    }
  }

  /** Cancels all timers. */
  close(): void {
    for (const countdown of this.#running) countdown.timer?.cancel();
    this.#running.clear();
  }

  #arm(countdown: Running): void {
    countdown.timer = startTimer(countdown.endsAtMs - clockMs(), () => {
      this.#running.delete(countdown);
      countdown.act();
    });
  }
}
