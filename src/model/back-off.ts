// How long to wait before the next try of something that failed, or the next look at what is not there yet: ever
// longer, so that what is out of order is not asked all the time. Pure: it waits for nothing and counts nothing.

export interface BackOff {
  readonly firstMs: number;
  readonly mostMs: number;
  /** So many times as long as the one before; 2 when it is left out. */
  readonly factor?: number;
}

/** The pause after `before` others, from 0: `firstMs`, then `factor` times as long each time, up to `mostMs`. */
export function pauseAfter({ firstMs, mostMs, factor = 2 }: BackOff, before: number): number {
  return Math.min(mostMs, firstMs * factor ** before);
}
