// Would the end of the task be known here by now? A sidecar that stood still (stopped, or without CPU time) wakes to
// timers that are due, and hears only after them that the task has ended meanwhile: time alone proves nothing.
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

  /** The task's main process, which its launcher has started. Without one (`capture watch`) time and an exit file have to do. */
  started(pid: number): void {
    this.#startTicks = readStat(pid)?.startTicks;
    if (this.#startTicks === undefined) return; // hidden from us (hidepid), or gone
    this.#pid = pid;
    this.#seenAliveMs = this.#now();
  }

  /** True if it is `atMs` (since the epoch) or later, and the task's main process lived then. */
  reaches(atMs: number): boolean {
    if (atMs <= this.#seenAliveMs) return true;
    const nowMs = this.#now();
    if (atMs > nowMs) return false;
    if (this.#pid === undefined) return !this.#hasEnded();
    const stat = readStat(this.#pid);
    if (stat === undefined || stat.startTicks !== this.#startTicks) return false;
    // Of several threads the others may work on when the first one has ended.
    if (lifeOf(stat) !== 'alive' && stat.threads <= 1) return false;
    this.#seenAliveMs = nowMs;
    return true;
  }
}
