// When a pending file is pushed, and why one is not stored: pure, asked each time that something may have changed.
// Never starts a second push of a file.
import { isDoubted, isDone } from './decide.ts';
import type { FileState } from './file-state.ts';

/** The state of the whole run when a push is considered. */
export interface PushContext {
  readonly nowMs: number;
  /** A flush, a notice or the end of the run: nothing is paced or held back, but retries still wait. */
  readonly urgent: boolean;
  /**
   * The task itself asks for it (a flush), or has ended: a close that may be a death's need not wait until that is
   * known.
   */
  readonly vouched: boolean;
  /** After SIGTERM until the task has ended: its closes may be a death's. */
  readonly holdReplacing: boolean;
}

export type NextStep =
  | { readonly kind: 'push'; readonly spoolFirst: boolean }
  | { readonly kind: 'wait'; readonly untilMs: number }
  | { readonly kind: 'nothing' };

/** Whether this file is to be pushed now, later, or not. */
export function nextStep(fileState: FileState, context: PushContext): NextStep {
  if (!fileState.pending || fileState.pushing || fileState.blocked) return { kind: 'nothing' };
  if (isHeldBack(fileState, context.holdReplacing)) return { kind: 'nothing' };
  const retrying = fileState.tornTries > 0 || fileState.failedTries > 0;
  const isDoubtful = isDoubted(fileState) && !context.vouched;
  if (fileState.notBeforeMs > context.nowMs && (retrying || isDoubtful || !context.urgent)) {
    return { kind: 'wait', untilMs: fileState.notBeforeMs };
  }
  return { kind: 'push', spoolFirst: fileState.spoolFirst };
}

/** True while a push would put what may be a death's over a stored object, or where a good one should be. */
export function isHeldBack(fileState: FileState, holdReplacing: boolean): boolean {
  if (!holdReplacing || fileState.role !== 'result') return false;
  return isDoubted(fileState) || (fileState.replaces && fileState.lastClose?.evidence !== 'clean');
}

/** `otherwise`: why it is not stored if nothing prevents it. */
export function whyLeft(fileState: FileState, otherwise = 'no time was left'): string | undefined {
  if (fileState.left !== undefined) return fileState.left;
  if (fileState.blocked) return 'another process still has it open for writing';
  if (fileState.tornTries > 0) return 'it changed each time it was read';
  return isDone(fileState) ? undefined : otherwise;
}
