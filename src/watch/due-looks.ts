// When to look at the task's processes although no file was closed: soon after a process was born or died, then more
// and more rarely, and at once when one dies. A task that only computes wakes us a few times an hour.
import { LONGEST_MS } from '../native/clock.ts';
import { openDeathWatcher } from '../native/death-watcher.ts';

/** Two looks without a close between them are at least this far apart. */
const LOOK_EVERY_MS = 2000;

/** The result of a look. */
export interface Looked {
  /** A process was born, or died, or its parent has waited for it. */
  readonly hasChanged: boolean;
  /** A daemon may start processes for the task: only a look finds those. */
  readonly isRemote: boolean;
  /** The processes that are alive. */
  readonly pids: readonly number[];
}

/**
 * The next look is due once the time without a change has doubled, and after {@link LOOK_EVERY_MS} at the earliest. The
 * kernel reports the death of each process that a look has seen. A process that was born and has died between two looks
 * is found only by the next look. Until then it may cast doubt on closes, for at most as long as nothing had changed
 * before it.
 */
export class DueLooks {
  readonly #look: () => void;
  readonly #deaths = openDeathWatcher(() => this.#died());
  #timer: NodeJS.Timeout | undefined;
  #lookedAtMs = performance.now();
  #changedAtMs = this.#lookedAtMs;

  constructor(look: () => void) {
    this.#look = look;
    this.#arm(LOOK_EVERY_MS);
  }

  /** Call it after each look, whatever its reason. */
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

  /** The parent will soon wait for the dead process, which is one more change. */
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
