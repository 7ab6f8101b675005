// How long to wait before the next try of something that failed, or the next look for what is not there yet: longer
// each time, so that nothing is asked all the time. Pure: it waits for nothing and counts nothing.

export interface BackOff {
  readonly firstMs: number;
  readonly mostMs: number;
  /** Each pause is this many times as long as the one before; 2 if it is left out. */
  readonly factor?: number;
}

/**
 * The pause after `before` others, counted from 0: `firstMs`, then `factor` times as long each time, up to `mostMs`.
 */
export function pauseAfter({ firstMs, mostMs, factor = 2 }: BackOff, before: number): number {
  return Math.min(mostMs, firstMs * factor ** before);
}
