// When will all be done? By those that are: their median, dealt to the places that there are. Memory only.

/** Tasks change on the way: what ended long ago says less. */
const NEWEST = 255;

/** The durations of the newest tasks that were done. */
export class Durations {
  readonly #newest: number[] = [];
  #at = 0;

  add(ms: number): void {
    this.#newest[this.#at] = ms;
    this.#at = (this.#at + 1) % NEWEST;
  }

  /** Undefined as long as none is known. */
  medianMs(): number | undefined {
    const ascending = this.#newest.toSorted((a, b) => a - b);
    return ascending[ascending.length >> 1];
  }
}

/**
 * How long until nothing waits or runs, if each takes `medianMs`; undefined if no duration is known, or nothing can
 * start (`atOnce` 0, and some wait).
 */
export function etaMs(left: {
  readonly medianMs: number | undefined;
  /** For how long each of those that run does so. */
  readonly runningMs: readonly number[];
  readonly waiting: number;
  /** So many run at once. */
  readonly atOnce: number;
}): number | undefined {
  const { medianMs, runningMs, waiting, atOnce } = left;
  if (runningMs.length === 0 && waiting === 0) return 0;
  if (medianMs === undefined || (atOnce === 0 && waiting > 0)) return undefined;
  // A task that took longer than most is expected to end at any moment.
  const rests = runningMs.map((ms) => Math.max(0, medianMs - ms));
  const free = Array.from({ length: Math.max(0, Math.min(atOnce - rests.length, waiting)) }, () => 0);
  const places = [...free, ...rests].toSorted((a, b) => a - b);
  // More run than may: those that wait come to the places that are free first.
  const dealt = Math.min(places.length, Math.max(1, atOnce));
  const ends = places.map((restMs, at) => {
    const takes = at < dealt ? Math.ceil(Math.max(0, waiting - at) / dealt) : 0;
    return restMs + takes * medianMs;
  });
  return Math.max(...ends);
}
