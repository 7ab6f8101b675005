// Picks the zstd level that gets a file to the store soonest (--compression zstd:auto). It judges by the speed and
// ratio of each level on the start of the file, and by the rate of the link. It reads no file and no clock.

/** The result of compressing a sample with one level. */
export interface MeasuredLevel {
  readonly level: number;
  /** Input bytes that one core compresses in a second. */
  readonly bytesPerS: number;
  /** Compressed size divided by original size. */
  readonly ratio: number;
}

/** The level before anything was measured. */
export const LEAST_LEVEL = 1;
/** Levels above 3 never saved enough bytes to be worth their time (docs/dev/performance/results.md). */
export const HIGHER_LEVELS: readonly number[] = [2, 3];

/** A level must be this many times faster, or its output this many times smaller, to be preferred: each costs CPU. */
const WORTH_GAIN = 1.2;

/** Bytes of the file that reach the store in a second. Compressing and sending overlap, so the slower one decides. */
export function storedBytesPerS({ bytesPerS, ratio }: MeasuredLevel, linkBytesPerS: number): number {
  return Math.min(bytesPerS, linkBytesPerS / ratio);
}

/** True if the link is the bottleneck: sending less would store the file sooner. */
export function isLinkBound(tried: MeasuredLevel, linkBytesPerS: number): boolean {
  return linkBytesPerS / tried.ratio < tried.bytesPerS;
}

/**
 * The level that stores the file soonest; `least` unless another one gains enough. It never picks a level that sends
 * more than `least` over a slower link: a speed gain without a smaller output is measurement noise.
 */
export function bestLevel(
  least: MeasuredLevel,
  others: readonly MeasuredLevel[],
  linkBytesPerS: number,
): MeasuredLevel {
  const rateOf = (tried: MeasuredLevel): number => storedBytesPerS(tried, linkBytesPerS);
  let best: MeasuredLevel | undefined;
  for (const other of others) {
    if (other.ratio * WORTH_GAIN > least.ratio) continue;
    if (best === undefined || rateOf(other) > rateOf(best)) best = other;
  }
  // Over a slow link the gain is the one of the ratios, which is enough: rounding must not make it less.
  const leastGain = WORTH_GAIN * (1 - Number.EPSILON * 8);
  return best !== undefined && rateOf(best) >= rateOf(least) * leastGain ? best : least;
}
