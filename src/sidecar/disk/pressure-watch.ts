// When the free space of the work directory is looked at, for the deletions of `--reclaim auto`.
import type { Pressure } from '../../reclaim/pressure.ts';

/** Looks are at least this far apart. One always follows the last result of a burst. */
const LOOK_EVERY_MS = 1000;
/** The interval while more than half is in use and something could be reclaimed. */
const NEAR_EVERY_MS = 5000;

interface PressureWatchOptions {
  /** How short the space is, compared with what could be reclaimed. */
  readonly look: () => Promise<Pressure>;
  /** Reclaims what can be deleted. */
  readonly reclaim: () => Promise<void>;
}

/**
 * When to look at the free space for a reclaim: after results were stored, and at intervals while space may run short,
 * because the task also fills it with other files. An idle run with enough space is never woken.
 */
export class PressureWatch {
  readonly #options: PressureWatchOptions;
  #timer: NodeJS.Timeout | undefined;
  #dueMs = Infinity;
  #lookedMs = -Infinity;
  #looking = false;
  #closed = false;

  constructor(options: PressureWatchOptions) {
    this.#options = options;
  }

  /** Something was stored that could be reclaimed. */
  changed(): void {
    this.#lookAt(this.#lookedMs + LOOK_EVERY_MS);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** The earliest request counts. */
  #lookAt(atMs: number): void {
    if (this.#closed || this.#looking || atMs >= this.#dueMs) return;
    clearTimeout(this.#timer);
    this.#dueMs = atMs;
    this.#timer = setTimeout(() => void this.#look(), Math.max(0, atMs - performance.now()));
  }

  async #look(): Promise<void> {
    this.#dueMs = Infinity;
    this.#looking = true;
    this.#lookedMs = performance.now();
    // If the directory cannot be queried, that is no reason to delete anything.
    const pressure = await this.#options.look().catch(() => 'none' as const);
    if (pressure === 'high') await this.#options.reclaim();
    this.#looking = false;
    if (pressure !== 'none') this.#lookAt(performance.now() + NEAR_EVERY_MS);
  }
}
