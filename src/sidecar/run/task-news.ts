// Would we know by now if the task had ended? A sidecar that stood still (stopped, or without CPU time) first runs the
// timers that are due when it wakes, and hears only then that the task has ended meanwhile: time alone proves nothing.
import { lifeOf, readStat } from '../../native/processes.ts';

export class TaskNews {
  readonly #now: () => number;
  readonly #hasEnded: () => boolean;
  #pid: number | undefined;
  #startTicks: number | undefined;
  #seenAliveMs = 0;

  /** `hasEnded`: for `capture watch`, which knows no process of the task. */
  constructor(now: () => number, hasEnded = () => false) {
    this.#now = now;
    this.#hasEnded = hasEnded;
  }

  /**
   * The task's main process, started by its launcher. Without one (`capture watch`) time and an exit file have to
   * suffice.
   */
  started(pid: number): void {
    this.#startTicks = readStat(pid)?.startTicks;
    if (this.#startTicks === undefined) return; // hidden from us (hidepid), or gone
    this.#pid = pid;
    this.#seenAliveMs = this.#now();
  }

  /** True if it is `atMs` (since the epoch) or later, and the task's main process was alive then. */
  reaches(atMs: number): boolean {
    if (atMs <= this.#seenAliveMs) return true;
    const nowMs = this.#now();
    if (atMs > nowMs) return false;
    if (this.#pid === undefined) return !this.#hasEnded();
    const stat = readStat(this.#pid);
    if (stat === undefined || stat.startTicks !== this.#startTicks) return false;
    // When the first of several threads has ended, the others may still be running.
    if (lifeOf(stat) !== 'alive' && stat.threads <= 1) return false;
    this.#seenAliveMs = nowMs;
    return true;
  }
}
