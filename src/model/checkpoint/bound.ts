// How old the newest committed set of checkpoint files may become while the task writes, and when a cut of an instant
// must begin to keep this bound. Pure; model/checkpoint/cut knows what a cut is, and what is proven.

/** The newest committed set is never older than this, or than three times what sending one takes; ms. */
export const BOUND_MS = 10_000;
/** A cut of an instant is tried this early: a member may be open, or change before it is read. */
const EARLY_MS = 3000;
/** What is on its way when the bound passes is not late yet. */
const LATE_MS = 2000;

/** `sendMs`: how long sending a set takes, as measured. */
export function boundOf(sendMs: number): number {
  return Math.max(BOUND_MS, 3 * sendMs);
}

/**
 * When a cut of an instant is due: early enough to be committed by the bound, and not committed before the newest
 * proven set, cut at `provenCutMs`, is older than the bound.
 */
export function instantDueMs(staleSinceMs: number, provenCutMs: number, sendMs: number): number {
  return Math.max(staleSinceMs - EARLY_MS, provenCutMs) + boundOf(sendMs) - sendMs;
}

/** True if what was closed then has waited for longer than the bound. */
export function isLate(staleSinceMs: number, nowMs: number, sendMs: number): boolean {
  return nowMs > staleSinceMs + boundOf(sendMs) + LATE_MS;
}
