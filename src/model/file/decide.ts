// What to do about one declared file in one role: pure functions of its state and what happened. They promise that the
// last closed content is pushed or reported as left, that an unchanged baseline is never pushed, that no file is pushed
// twice at a time, and that nothing counts as durable before the store has said so.
import { type BackOff, pauseAfter } from '../waiting.ts';
import { type Evidence } from './evidence.ts';
import {
  type ClosedHow,
  type Durable,
  type FileState,
  type Fingerprint,
  sameFingerprint,
} from './file-state.ts';
import { LATE_NEWS_MS, provenFromMs } from './suspect.ts';

/** A close of a result that would replace something stored waits this long, if nobody saw who closed it. */
export const HOLD_MS = 2000;
/**
 * Closes in quick succession prolong that by no more than this, so that the file of a steady writer is stored at all.
 */
const MOST_HOLD_MS = 10_000;
/** The same for closes of a result that may each be a death's. */
export const MOST_DOUBT_MS = 60_000;
const AFTER_TORN: BackOff = { firstMs: 50, mostMs: 5000 };
const AFTER_FAILED: BackOff = { firstMs: 1000, mostMs: 60_000 };

export type FileEvent =
  /** `fingerprint` is given by scans: a state that is known already is no close. */
  | {
      readonly kind: 'closed';
      readonly how: ClosedHow;
      readonly atMs: number;
      /** `unknown` if it is left out. */
      readonly evidence?: Evidence | undefined;
      readonly fingerprint?: Fingerprint;
    }
  | { readonly kind: 'push-started' }
  | { readonly kind: 'stored'; readonly durable: Durable; readonly atMs: number; readonly tookMs: number }
  /** The content is that of the baseline: nothing was sent. */
  | { readonly kind: 'unchanged'; readonly durable: Durable }
  | { readonly kind: 'has-writer' }
  | { readonly kind: 'torn'; readonly atMs: number }
  /**
   * What was read is of a later close than the one that it was read for, and that close has to wait. `sinceMs`: since
   * when that one waited, ms since the epoch: a steady writer must not prolong it.
   */
  | { readonly kind: 'held'; readonly sinceMs: number }
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly why: string; readonly atMs: number }
  /** It can never be pushed as it is (a link out of the work directory, another user's secret). */
  | { readonly kind: 'refused'; readonly why: string }
  /** A checkpoint generation needs exactly this content: no pacing. A torn file still waits for its next try. */
  | { readonly kind: 'wanted' }
  /**
   * Somebody waits for it: no pacing, and no hold unless the close is in doubt; after a refused push or a writer it
   * is tried again now.
   */
  | { readonly kind: 'hurried' }
  /** The task itself says that what it has closed is whole (`capture flush`): so no death closed it. */
  | { readonly kind: 'vouched' }
  /** The store works again, or time is short: what failed is tried at once, and again soon. */
  | { readonly kind: 'retry-now' }
  /** The task ended with 0: what it inherited and did not touch is its result, too. */
  | { readonly kind: 'adopt' };

/** The state after an event. */
export function decide(fileState: FileState, event: FileEvent): FileState {
  switch (event.kind) {
    case 'closed':
      return closed(fileState, event);
    case 'push-started':
      return { ...fileState, pushing: true, closedAgain: false, readingCloses: fileState.closes };
    case 'stored':
      return stored(fileState, event);
    case 'unchanged':
      return nowDurable(fileState, event.durable);
    case 'has-writer':
      // A close came while the push looked, so this writer may be gone already: look again.
      return { ...ended(fileState), pending: true, blocked: !fileState.closedAgain };
    case 'torn':
      return torn(fileState, event.atMs);
    case 'held':
      return held(fileState, event.sinceMs);
    case 'gone':
      return gone(fileState);
    case 'failed':
      return failed(fileState, event);
    case 'refused':
      return { ...ended(fileState), pending: fileState.closedAgain, left: event.why };
    case 'wanted':
      return wanted(fileState);
    case 'retry-now':
      return retryNow(fileState);
    case 'hurried':
      return hurried(fileState);
    case 'vouched':
      return vouched(fileState);
    case 'adopt':
      return fileState.inherited === undefined
        ? fileState
        : { ...fileState, inherited: undefined, pending: true };
  }
}

/** The reading was a whole one. */
function held(fileState: FileState, pendingSinceMs: number): FileState {
  const next = { ...ended(fileState), pending: true, pendingSinceMs, tornTries: 0 };
  return { ...next, notBeforeMs: heldUntilMs(next) };
}

function torn(fileState: FileState, atMs: number): FileState {
  const tries = { tornTries: fileState.tornTries + 1, spoolFirst: true };
  return retried(fileState, tries, atMs, pauseAfter(AFTER_TORN, fileState.tornTries));
}

function gone(fileState: FileState): FileState {
  return {
    ...ended(fileState),
    pending: fileState.closedAgain,
    tornTries: 0,
    left: undefined,
    inherited: undefined,
    durableCloses: fileState.readingCloses,
  };
}

function failed(fileState: FileState, { why, atMs }: Extract<FileEvent, { kind: 'failed' }>): FileState {
  const tries = { failedTries: fileState.failedTries + 1 };
  const next = retried(fileState, tries, atMs, pauseAfter(AFTER_FAILED, fileState.failedTries));
  return { ...next, left: why };
}

function wanted(fileState: FileState): FileState {
  const notBeforeMs = fileState.tornTries > 0 ? fileState.notBeforeMs : 0;
  return { ...fileState, pending: true, blocked: false, notBeforeMs };
}

function retryNow(fileState: FileState): FileState {
  if (fileState.failedTries === 0) return fileState;
  const notBeforeMs = isDoubted(fileState) ? heldUntilMs(fileState) : 0;
  return { ...fileState, failedTries: 0, notBeforeMs };
}

function hurried(fileState: FileState): FileState {
  const waits = fileState.tornTries > 0 || isDoubted(fileState);
  const notBeforeMs = waits ? fileState.notBeforeMs : 0;
  return { ...fileState, blocked: false, failedTries: 0, notBeforeMs };
}

function closed(fileState: FileState, event: Extract<FileEvent, { kind: 'closed' }>): FileState {
  if (event.fingerprint !== undefined && isKnown(fileState, event.fingerprint))
    return { ...fileState, blocked: false };
  if (event.how === 'scan' && isTold(fileState, event.fingerprint)) return { ...fileState, blocked: false };
  const waits = fileState.pushing ? fileState.closedAgain : fileState.pending;
  const pendingSinceMs = waits ? fileState.pendingSinceMs : event.atMs;
  const lastClose = { how: event.how, atMs: event.atMs, evidence: event.evidence ?? 'unknown' };
  const heldMs = heldUntilMs({ ...fileState, pendingSinceMs, lastClose });
  return {
    ...fileState,
    inherited: undefined,
    pending: true,
    pendingSinceMs,
    closedAgain: fileState.pushing,
    blocked: false,
    left: undefined,
    notBeforeMs: Math.max(pacedUntilMs(fileState), heldMs),
    lastClose,
    closes: fileState.closes + 1,
  };
}

function vouched(fileState: FileState): FileState {
  const { lastClose, pending, notBeforeMs } = fileState;
  if (lastClose === undefined) return fileState;
  return {
    ...fileState,
    lastClose: { ...lastClose, evidence: 'clean' },
    notBeforeMs: pending ? pacedUntilMs(fileState) : notBeforeMs,
  };
}

/** A torn file is tried again at once if it is closed anew; a pause for an older close never delays a newer one. */
function pacedUntilMs(fileState: FileState): number {
  const { tornTries, notBeforeMs } = fileState;
  return tornTries > 0 || notBeforeMs <= heldUntilMs(fileState) ? 0 : notBeforeMs;
}

/**
 * Until when the last close is held: because of what it would replace, or because it may be a death's; 0 for neither.
 */
function heldUntilMs(fileState: FileState): number {
  const { role, replaces, pendingSinceMs, lastClose } = fileState;
  if (role !== 'result' || lastClose === undefined || provenFromMs(lastClose, undefined) === 0) return 0;
  if (isDoubted(fileState)) return Math.min(lastClose.atMs + LATE_NEWS_MS, pendingSinceMs + MOST_DOUBT_MS);
  return replaces ? Math.min(lastClose.atMs + HOLD_MS, pendingSinceMs + MOST_HOLD_MS) : 0;
}

/** True for a result whose last close may be a death's: until that is known it must not stand under its good name. */
export function isDoubted({ role, lastClose }: Pick<FileState, 'role' | 'lastClose'>): boolean {
  return role === 'result' && lastClose?.evidence === 'doubtful';
}

/**
 * True for a closed result that is not sent until it is known that no death closed it, or that is only now being
 * sent.
 */
export function awaitsProof(fileState: FileState): boolean {
  return !isDone(fileState) && !fileState.blocked && heldUntilMs(fileState) > 0;
}

/** The same for a close that came during the push that ends now: it may be a death's like any other. */
function heldBehindMs(fileState: FileState): number {
  return fileState.closedAgain ? heldUntilMs(fileState) : 0;
}

function stored(
  fileState: FileState,
  { durable, atMs, tookMs }: Extract<FileEvent, { kind: 'stored' }>,
): FileState {
  const notBeforeMs = Math.max(atMs + tookMs, heldBehindMs({ ...fileState, replaces: true }));
  return { ...nowDurable(fileState, durable), replaces: true, notBeforeMs };
}

/** A scan also sees files that nobody has touched since we last knew them. */
function isKnown(fileState: FileState, fingerprint: Fingerprint): boolean {
  const known = fileState.inherited ?? (fileState.pending ? undefined : fileState.durable?.fingerprint);
  return known !== undefined && sameFingerprint(known, fingerprint);
}

/**
 * A file that waits to be pushed, or is on its way, has no new close just because a scan sees it: only a write after
 * the last close makes one. A push that reads now must not miss any change; otherwise its content counts.
 */
function isTold(fileState: FileState, seen: Fingerprint | undefined): boolean {
  const { lastClose, pending, pushing } = fileState;
  if (!pending) return false;
  if (lastClose === undefined || seen === undefined) return !pushing;
  const changedNs = pushing ? seen.ctimeNs : seen.mtimeNs;
  return BigInt(changedNs) / 1_000_000n <= BigInt(Math.floor(lastClose.atMs));
}

function ended(fileState: FileState): FileState {
  return { ...fileState, pushing: false, closedAgain: false };
}

function nowDurable(fileState: FileState, durable: Durable): FileState {
  return {
    ...ended(fileState),
    pending: fileState.closedAgain,
    blocked: false,
    tornTries: 0,
    failedTries: 0,
    durable,
    durableCloses: fileState.readingCloses,
    left: undefined,
  };
}

function retried(fileState: FileState, tries: Partial<FileState>, atMs: number, pauseMs: number): FileState {
  const notBeforeMs = fileState.closedAgain ? Math.max(atMs, heldBehindMs(fileState)) : atMs + pauseMs;
  return { ...ended(fileState), ...tries, pending: true, notBeforeMs };
}

/** True if the content of this many closes is durable or withdrawn, or can never be stored as it is. */
export function isOver(fileState: FileState, closes: number): boolean {
  return fileState.durableCloses >= closes || (isDone(fileState) && fileState.left !== undefined);
}

/** True if nothing of this file is waited for any more: it is durable, withdrawn, or given up for a reason. */
export function isDone(fileState: FileState): boolean {
  return !fileState.pending && !fileState.pushing;
}

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
  if (fileState.notBeforeMs > context.nowMs && (retrying || mustWait(fileState, context))) {
    return { kind: 'wait', untilMs: fileState.notBeforeMs };
  }
  return { kind: 'push', spoolFirst: fileState.spoolFirst };
}

/** Pacing and holds end with the hurry; what may be a death's waits all the same, unless the task vouches for it. */
function mustWait(fileState: FileState, { urgent, vouched }: PushContext): boolean {
  return !urgent || (isDoubted(fileState) && !vouched);
}

/**
 * True if what a push has read is held: a close came during the push, and this may be its content. `sinceMs`: as in the
 * event `held`.
 */
export function isReadHeld(fileState: FileState, sinceMs: number, context: PushContext): boolean {
  if (!fileState.closedAgain) return false;
  if (isHeldBack(fileState, context.holdReplacing)) return true;
  const untilMs = heldUntilMs({ ...fileState, pendingSinceMs: sinceMs });
  return untilMs > context.nowMs && mustWait(fileState, context);
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
