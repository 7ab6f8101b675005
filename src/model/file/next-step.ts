// When a file that decide() knows to be pending is pushed: pure, asked each time that something may have
// changed. It never starts a second push of a file.
import { isDoubted } from './decide.ts';
import type { Track } from './file-state.ts';

/** What is true of the whole run when a push is considered. */
export interface PushContext {
  readonly nowMs: number;
  /** A flush, a notice or the end of the run: pacing and holding no longer count, retries do. */
  readonly urgent: boolean;
  /** The task itself asks for it (a flush), or has ended: what may be a death's need not wait until that is settled. */
  readonly vouched: boolean;
  /** After SIGTERM until the task has ended: its closes may be a death's. */
  readonly holdReplacing: boolean;
}

export type NextStep =
  | { readonly kind: 'push'; readonly spoolFirst: boolean }
  | { readonly kind: 'wait'; readonly untilMs: number }
  | { readonly kind: 'nothing' };

/** Whether this file is to be pushed now, later, or not. */
export function nextStep(track: Track, context: PushContext): NextStep {
  if (!track.pending || track.pushing || track.blocked) return { kind: 'nothing' };
  if (isHeldBack(track, context.holdReplacing)) return { kind: 'nothing' };
  const retrying = track.tornTries > 0 || track.failedTries > 0;
  const isDoubtful = isDoubted(track) && !context.vouched;
  if (track.notBeforeMs > context.nowMs && (retrying || isDoubtful || !context.urgent)) {
    return { kind: 'wait', untilMs: track.notBeforeMs };
  }
  return { kind: 'push', spoolFirst: track.spoolFirst };
}

/** True while a push would put what may be a death's over a stored object, or where a good one is to stand. */
export function isHeldBack(track: Track, holdReplacing: boolean): boolean {
  if (!holdReplacing || track.role !== 'result') return false;
  return isDoubted(track) || (track.replaces && track.lastClose?.evidence !== 'clean');
}
