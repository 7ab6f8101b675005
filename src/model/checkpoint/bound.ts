// How old the newest committed set of checkpoint files may become while the task writes, and when a cut of an instant
// has to begin to keep that. Pure; what a cut is, and what is proven, is model/checkpoint/cut's.

/** The newest committed set is never older than this, or than three times what sending one takes; ms. */
export const BOUND_MS = 10_000;
/** From when on a cut of an instant is tried: a member may be open, or change before it is read. */
const EARLY_MS = 3000;
/** What is on its way when the bound passes is not late yet. */
const LATE_MS = 2000;

/** `sendMs`: what sending a set was measured to take. */
export function boundOf(sendMs: number): number {
  return Math.max(BOUND_MS, 3 * sendMs);
}

/**
 * When a cut of an instant is due: early enough to be committed by the bound, and not committed before the newest
 * proven set, cut at `provenCutMs`, is older than that.
 */
export function instantDueMs(staleSinceMs: number, provenCutMs: number, sendMs: number): number {
  return Math.max(staleSinceMs - EARLY_MS, provenCutMs) + boundOf(sendMs) - sendMs;
}

/** What was closed then waits for longer than the bound. */
export function isLate(staleSinceMs: number, nowMs: number, sendMs: number): boolean {
  return nowMs > staleSinceMs + boundOf(sendMs) + LATE_MS;
}
