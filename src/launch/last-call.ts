// The time that is left once somebody has said that we will be stopped: when it ends, when the task must be
// gone so that what it closed can still be saved, and when the task is told. Each caller can only make it shorter; a
// caller that takes its word back gives its time back.
import { drainReserveMs } from '../model/file/deadline.ts';
import { clockMs, type LongTimer, startTimer } from '../native/clock.ts';

/** A task that was not told before has this long to end before it is killed, in a short window less. */
const TOLD_BEFORE_MS = 2000;
const TOLD_BEFORE_SHARE = 0.1;

interface LastCallOptions {
  readonly countdowns: Countdowns;
  /** The task runs, or may have been ended by what a caller hears of only now. */
  readonly isForTask: () => boolean;
  /** Called when the task must be told at the latest. */
  readonly tell: () => void;
  /** Called when the task has used up its time. */
  readonly kill: () => void;
  /** The deadline is another one now. */
  readonly changed: (deadlineMs: number | undefined) => void;
}

interface Call {
  readonly beganAtMs: number;
  readonly deadlineMs: number;
  readonly isForTask: boolean;
  /** An instant that comes whether or not we are stopped meanwhile. */
  readonly isFixed: boolean;
}

export class LastCall {
  readonly #options: LastCallOptions;
  /** By who said so, in the order in which they did. */
  readonly #calls = new Map<string, Call>();
  #isTold = false;
  #drainMs: number | undefined;
  #shortenedToMs = Infinity;
  #timer: Countdown | undefined;

  constructor(options: LastCallOptions) {
    this.#options = options;
  }

  /** True when it was for the task, too. */
  preempted(): boolean {
    return [...this.#calls.values()].some(({ isForTask }) => isForTask);
  }

  /** Who began it, for the record. */
  reason(): string | undefined {
    return [...this.#calls.keys()][0];
  }

  /** When we will be killed, ms since the epoch; undefined: nobody said so. */
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

  /** `from` says that all ends at `deadlineMs`; its first word stands. */
  begin({ from, ...call }: Pick<Call, 'deadlineMs' | 'isFixed'> & { readonly from: string }): void {
    if (this.#calls.has(from)) return;
    const isForTask = this.#options.isForTask();
    this.#change(() => this.#calls.set(from, { beganAtMs: clockMs(), isForTask, ...call }));
  }

  /** `from` has taken it back. Without effect once the task was told. */
  withdraw(from: string): void {
    if (!this.#isTold && this.#calls.has(from)) this.#change(() => this.#calls.delete(from));
  }

  /** The task has the signal. */
  told(): void {
    this.#isTold = true;
    this.#arm();
  }

  /** What sending its last files is measured to take, ms. */
  drainTakes(ms: number): void {
    this.#drainMs = ms;
    this.#arm();
  }

  /** The task has this long at most. */
  shorten(ms: number): void {
    this.#shortenedToMs = Math.min(this.#shortenedToMs, clockMs() + ms);
    this.#arm();
  }

  /** We were stopped for so long: what is left of a grace is left still. */
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

  #nearest(): Call | undefined {
    return [...this.#calls.values()].toSorted((a, b) => a.deadlineMs - b.deadlineMs)[0];
  }

  /** After `act` the timer runs to the new deadline, and who waits for it hears of it. */
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
    const tellFirst = !this.#isTold;
    const atMs = tellFirst ? killAtMs - this.#toldBeforeMs() : killAtMs;
    this.#timer = this.#options.countdowns.start(Math.max(0, atMs - clockMs()), () => {
      if (!tellFirst) return this.#options.kill();
      this.#isTold = true;
      this.#options.tell();
      this.#arm();
    });
  }

  #toldBeforeMs(): number {
    const { beganAtMs = 0, deadlineMs = 0 } = this.#nearest() ?? {};
    return Math.min(TOLD_BEFORE_MS, (deadlineMs - beganAtMs) * TOLD_BEFORE_SHARE);
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
 * Timers that know about job control: if the run is stopped for a while, every timer ends that much later, so that
 * nothing is killed for having slept. They never hold the process open.
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

  /** We were stopped for so long: every running countdown ends that much later. */
  lengthen(ms: number): void {
    for (const countdown of this.#running) {
      countdown.timer?.cancel();
      countdown.endsAtMs += ms;
      this.#arm(countdown);
    }
  }

  /** Stops them all. */
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
