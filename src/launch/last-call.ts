// The time after SIGTERM: when it ends, and when a task that does not end must be killed so that what it
// closed can still be saved. Begins once; a second SIGTERM does not give more time.
import type { Countdowns } from './countdown.ts';

/** The task's share of the grace; the rest is for the final drain. */
const TASK_SHARE = 2 / 3;

export interface LastCall {
  /** True when it began while the task was running. */
  preempted(): boolean;
  /** When we will be killed, ms since the epoch; undefined: nobody said so. */
  deadlineMs(): number | undefined;
  /** When the task must be gone, ms since the epoch. */
  taskDeadlineMs(): number | undefined;
  begin(taskRuns: boolean): void;
  /** We were stopped for so long. */
  lengthen(ms: number): void;
}

/** `kill` is called when the task has used up its share of the grace. */
export function createLastCall(graceMs: number, countdowns: Countdowns, kill: () => void): LastCall {
  let beganAtMs: number | undefined;
  let preempted = false;
  return {
    preempted: () => preempted,
    deadlineMs: () => (beganAtMs === undefined ? undefined : beganAtMs + graceMs),
    taskDeadlineMs: () => (beganAtMs === undefined ? undefined : beganAtMs + graceMs * TASK_SHARE),
    begin: (taskRuns) => {
      preempted ||= taskRuns;
      if (beganAtMs !== undefined) return;
      beganAtMs = Date.now();
      countdowns.start(graceMs * TASK_SHARE, kill);
    },
    lengthen: (ms) => {
      if (beganAtMs !== undefined) beganAtMs += ms;
    },
  };
}
