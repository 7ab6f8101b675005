// Which level of zstd brings a file to the store soonest (--compression zstd:auto), from how each level did on the start
// of the file and from the rate of the link. Knows no file and no clock.

/** How one level did on a sample. */
export interface TriedLevel {
  readonly level: number;
  /** Of the file, compressed in a second on one core. */
  readonly bytesPerS: number;
  /** Compressed size by size. */
  readonly ratio: number;
}

/** Where nothing is known. */
export const LEAST_LEVEL = 1;
/** Those above made nothing smaller that was worth their time (docs/performance.md). */
export const HIGHER_LEVELS: readonly number[] = [2, 3];

/** So many times faster must another level be, and so many times smaller what it makes: each costs CPU. */
const WORTH_GAIN = 1.2;

/** Bytes of the file that are stored in a second: compressing and sending overlap, and the slower one decides. */
export function storedBytesPerS({ bytesPerS, ratio }: TriedLevel, linkBytesPerS: number): number {
  return Math.min(bytesPerS, linkBytesPerS / ratio);
}

/** Would the file be stored sooner if less had to be sent? */
export function waitsForLink(tried: TriedLevel, linkBytesPerS: number): boolean {
  return linkBytesPerS / tried.ratio < tried.bytesPerS;
}

/**
 * The level that stores the file soonest; `least` unless another one gains enough. Never one that stores more over a
 * slower link: what makes the file hardly smaller does not count, however fast a noisy measurement says that it was.
 */
export function bestLevel(
  least: TriedLevel,
  others: readonly TriedLevel[],
  linkBytesPerS: number,
): TriedLevel {
  const rateOf = (tried: TriedLevel): number => storedBytesPerS(tried, linkBytesPerS);
  let best: TriedLevel | undefined;
  for (const other of others) {
    if (other.ratio * WORTH_GAIN > least.ratio) continue;
    if (best === undefined || rateOf(other) > rateOf(best)) best = other;
  }
  return best !== undefined && rateOf(best) >= rateOf(least) * WORTH_GAIN ? best : least;
}
