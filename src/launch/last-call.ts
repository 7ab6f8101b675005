// The time that is left once somebody has said that we will be stopped: when it ends, when the task must be
// gone so that what it closed can still be saved, and when it is told. Callers only ever make it shorter; one
// that takes its word back gives its time back.
import { drainReserveMs } from '../model/file/deadline.ts';
import { clockMs } from '../native/clock.ts';
import type { Countdown, Countdowns } from './countdown.ts';

/** A task that was not told before has this long to end before it is killed, in a short window less. */
const TOLD_BEFORE_MS = 2000;
const TOLD_BEFORE_SHARE = 0.1;

export interface LastCall {
  /** True when it began while the task was running. */
  preempted(): boolean;
  /** Who began it, for the record. */
  reason(): string | undefined;
  /** When we will be killed, ms since the epoch; undefined: nobody said so. */
  deadlineMs(): number | undefined;
  /** When the task must be gone, ms since the epoch. */
  taskDeadlineMs(): number | undefined;
  /** `from` says that all ends at `deadlineMs`; its first word stands. */
  begin(call: {
    readonly from: string;
    readonly deadlineMs: number;
    readonly taskRuns: boolean;
    /** An instant that comes whether or not we are stopped meanwhile. */
    readonly isFixed: boolean;
  }): void;
  /** `from` has taken it back. Without effect once the task was told. */
  withdraw(from: string): void;
  /** The task has the signal. */
  told(): void;
  /** What sending its last files is measured to take, ms. */
  drainTakes(ms: number): void;
  /** The task has this long at most. */
  shorten(ms: number): void;
  /** We were stopped for so long: what is left of a grace is left still. */
  lengthen(ms: number): void;
}

export interface LastCallOptions {
  readonly countdowns: Countdowns;
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
  readonly taskRuns: boolean;
  readonly isFixed: boolean;
}

export function createLastCall({ countdowns, tell, kill, changed }: LastCallOptions): LastCall {
  const calls = new Map<string, Call>();
  let isTold = false;
  let drainMs: number | undefined;
  let shortenedToMs = Infinity;
  let timer: Countdown | undefined;

  const nearest = (): Call | undefined =>
    [...calls.values()].toSorted((a, b) => a.deadlineMs - b.deadlineMs)[0];
  const taskDeadlineMs = (): number | undefined => {
    const call = nearest();
    if (call === undefined) return undefined;
    const { beganAtMs, deadlineMs } = call;
    return Math.min(shortenedToMs, deadlineMs - drainReserveMs(deadlineMs - beganAtMs, drainMs));
  };
  const toldBeforeMs = (): number => {
    const { beganAtMs = 0, deadlineMs = 0 } = nearest() ?? {};
    return Math.min(TOLD_BEFORE_MS, (deadlineMs - beganAtMs) * TOLD_BEFORE_SHARE);
  };
  const arm = (): void => {
    timer?.cancel();
    timer = undefined;
    const killAtMs = taskDeadlineMs();
    if (killAtMs === undefined) return;
    const tellFirst = !isTold;
    const atMs = tellFirst ? killAtMs - toldBeforeMs() : killAtMs;
    timer = countdowns.start(Math.max(0, atMs - clockMs()), () => {
      if (!tellFirst) return kill();
      isTold = true;
      tell();
      arm();
    });
  };
  const rearm = (before: number | undefined): void => {
    arm();
    const deadlineMs = nearest()?.deadlineMs;
    if (deadlineMs !== before) changed(deadlineMs);
  };
  return {
    preempted: () => [...calls.values()].some(({ taskRuns }) => taskRuns),
    reason: () => [...calls.keys()][0],
    deadlineMs: () => nearest()?.deadlineMs,
    taskDeadlineMs,
    begin: ({ from, deadlineMs, taskRuns, isFixed }) => {
      if (calls.has(from)) return;
      const before = nearest()?.deadlineMs;
      calls.set(from, { beganAtMs: clockMs(), deadlineMs, taskRuns, isFixed });
      rearm(before);
    },
    withdraw: (from) => {
      const before = nearest()?.deadlineMs;
      if (!isTold && calls.delete(from)) rearm(before);
    },
    told: () => {
      isTold = true;
      arm();
    },
    drainTakes: (ms) => {
      drainMs = ms;
      arm();
    },
    shorten: (ms) => {
      shortenedToMs = Math.min(shortenedToMs, clockMs() + ms);
      arm();
    },
    lengthen: (ms) => {
      const before = nearest()?.deadlineMs;
      shortenedToMs += ms;
      for (const [from, call] of calls) {
        if (call.isFixed) continue;
        calls.set(from, {
          ...call,
          beganAtMs: call.beganAtMs + ms,
          deadlineMs: call.deadlineMs + ms,
        });
      }
      rearm(before);
    },
  };
}
