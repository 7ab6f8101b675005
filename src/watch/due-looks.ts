// When the task's processes are looked at though nothing is closed: soon after something has changed among them, then
// more and more rarely, and at once when one of them dies. A task that only computes wakes us a few times in an hour.
import { LONGEST_MS } from '../native/clock.ts';
import { openDeaths } from '../native/deaths.ts';

/** Looks for which nothing was closed are at least so far apart. */
const LOOK_EVERY_MS = 2000;

/** What a look has found. */
export interface Looked {
  /** A process was born, or died, or its parent has waited for it. */
  readonly hasChanged: boolean;
  /** A daemon may start processes for the task: of those only a look tells. */
  readonly isRemote: boolean;
  /** Those that live. */
  readonly pids: readonly number[];
}

/**
 * The next look is due after as long as nothing has changed, and at least {@link LOOK_EVERY_MS}. The kernel tells of the
 * death of a process that was seen before. Of one that was born and has died since, only the next look tells: that death
 * may cast doubt on a close as long after it as all was quiet before it.
 */
export class DueLooks {
  readonly #look: () => void;
  readonly #deaths = openDeaths(() => this.#died());
  #timer: NodeJS.Timeout | undefined;
  #lookedAtMs = performance.now();
  #changedAtMs = this.#lookedAtMs;

  constructor(look: () => void) {
    this.#look = look;
    this.#arm(LOOK_EVERY_MS);
  }

  /** Call it after each look, whatever it was taken for. */
  looked({ hasChanged, isRemote, pids }: Looked): void {
    this.#lookedAtMs = performance.now();
    if (hasChanged) this.#changedAtMs = this.#lookedAtMs;
    const quietMs = this.#lookedAtMs - this.#changedAtMs;
    const mayWait = !isRemote && quietMs >= LOOK_EVERY_MS && this.#deaths?.follow(pids) === true;
    this.#arm(mayWait ? quietMs : LOOK_EVERY_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#deaths?.close();
  }

  /** Its parent will soon wait for it: that is one more change. */
  #died(): void {
    const nowMs = performance.now();
    this.#changedAtMs = nowMs;
    this.#arm(this.#lookedAtMs + LOOK_EVERY_MS - nowMs);
  }

  #arm(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#look, Math.min(Math.max(0, ms), LONGEST_MS)).unref();
  }
}
