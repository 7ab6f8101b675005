// The estimated time until all tasks are done: the median duration of finished tasks, dealt to the job slots. In
// memory only.

/** Task durations change over time, so only this many recent ones count. */
const MOST_DURATIONS = 255;

/** The durations of the most recent finished tasks. */
export class Durations {
  readonly #newest: number[] = [];
  #at = 0;

  add(ms: number): void {
    this.#newest[this.#at] = ms;
    this.#at = (this.#at + 1) % MOST_DURATIONS;
  }

  /** Undefined before the first task is done. */
  medianMs(): number | undefined {
    const ascending = this.#newest.toSorted((a, b) => a - b);
    return ascending[ascending.length >> 1];
  }
}

/**
 * The time until no task waits or runs, if each takes `medianMs`. Undefined if no duration is known, or if tasks wait
 * and none can start (`atOnce` 0).
 */
export function etaMs(left: {
  readonly medianMs: number | undefined;
  /** How long each running task has run. */
  readonly runningMs: readonly number[];
  readonly waiting: number;
  /** How many tasks run at once. */
  readonly atOnce: number;
}): number | undefined {
  const { medianMs, runningMs, waiting, atOnce } = left;
  if (runningMs.length === 0 && waiting === 0) return 0;
  if (medianMs === undefined || (atOnce === 0 && waiting > 0)) return undefined;
  // A task that has run longer than the median is expected to end at any moment.
  const rests = runningMs.map((ms) => Math.max(0, medianMs - ms));
  const free = Array.from({ length: Math.max(0, Math.min(atOnce - rests.length, waiting)) }, () => 0);
  const places = [...free, ...rests].toSorted((a, b) => a - b);
  // More tasks run than `atOnce`: the waiting tasks get the slots that free up first.
  const dealt = Math.min(places.length, Math.max(1, atOnce));
  const ends = places.map((restMs, at) => {
    const takes = at < dealt ? Math.ceil(Math.max(0, waiting - at) / dealt) : 0;
    return restMs + takes * medianMs;
  });
  return Math.max(...ends);
}
