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
  sameContentFingerprint,
  sameFingerprint,
} from './file-state.ts';
/**
 * A doubtful close of a result is pushed so much later: of a task that ends with its last close, the end is known by
 * then, and that result is one request instead of four.
 */
const DOUBT_PAUSE_MS = 100;
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
      /** {@link Close.seq}; 0 if it is left out. */
      readonly seq?: number;
      readonly fingerprint?: Fingerprint;
    }
  /** `covers`: it reads an older state than the newest close made, that of so many closes. */
  | { readonly kind: 'push-started'; readonly covers?: number | undefined }
  | { readonly kind: 'stored'; readonly durable: Durable; readonly atMs: number; readonly tookMs: number }
  /** The content is that of the baseline: nothing was sent. */
  | { readonly kind: 'unchanged'; readonly durable: Durable }
  | { readonly kind: 'has-writer' }
  | { readonly kind: 'torn'; readonly atMs: number }
  | { readonly kind: 'gone' }
  /** No set needs this checkpoint as it is: it has left the set, or the set holds a newer state. */
  | { readonly kind: 'dropped' }
  | { readonly kind: 'failed'; readonly why: string; readonly atMs: number }
  /** It can never be pushed as it is (a link out of the work directory, another user's secret). */
  | { readonly kind: 'refused'; readonly why: string }
  /** A checkpoint generation needs exactly this content: no pacing. A torn file still waits for its next try. */
  | { readonly kind: 'wanted' }
  /** Somebody waits for it: no pacing; after a refused push or a writer it is tried again now. */
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
      return pushStarted(fileState, event.covers ?? fileState.closes);
    case 'stored':
      return stored(fileState, event);
    case 'unchanged':
      return nowDurable(fileState, event.durable);
    case 'has-writer':
      // A close came while the push looked, so this writer may be gone already: look again.
      return { ...ended(fileState), pending: true, blocked: !fileState.closedAgain };
    case 'torn':
      return torn(fileState, event.atMs);
    case 'gone':
      return gone(fileState);
    case 'dropped':
      return dropped(fileState);
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

function pushStarted(fileState: FileState, readingCloses: number): FileState {
  return { ...fileState, pushing: true, closedAgain: fileState.closes > readingCloses, readingCloses };
}

function dropped(fileState: FileState): FileState {
  const durableCloses = fileState.pushing ? fileState.readingCloses : fileState.closes;
  const over = { notBeforeMs: 0, tornTries: 0, failedTries: 0, left: undefined, durableCloses };
  return { ...ended(fileState), ...over, pending: fileState.pushing && fileState.closedAgain };
}

function failed(fileState: FileState, { why, atMs }: Extract<FileEvent, { kind: 'failed' }>): FileState {
  const tries = { failedTries: fileState.failedTries + 1 };
  const next = retried(fileState, tries, atMs, pauseAfter(AFTER_FAILED, fileState.failedTries));
  return { ...next, left: why };
}

function wanted(fileState: FileState): FileState {
  // What the store has refused waits for its next try as any other: whoever wants it asks again and again.
  const waits = fileState.tornTries > 0 || fileState.failedTries > 0;
  return { ...fileState, pending: true, blocked: false, notBeforeMs: waits ? fileState.notBeforeMs : 0 };
}

function retryNow(fileState: FileState): FileState {
  return fileState.failedTries === 0 ? fileState : { ...fileState, failedTries: 0, notBeforeMs: 0 };
}

function hurried(fileState: FileState): FileState {
  const notBeforeMs = fileState.tornTries > 0 ? fileState.notBeforeMs : 0;
  return { ...fileState, blocked: false, failedTries: 0, notBeforeMs };
}

function closed(fileState: FileState, event: Extract<FileEvent, { kind: 'closed' }>): FileState {
  if (event.fingerprint !== undefined && isKnown(fileState, event.fingerprint))
    return { ...fileState, blocked: false };
  if (event.how === 'scan' && isTold(fileState, event.fingerprint))
    return { ...fileState, blocked: false, seen: fileState.pushing ? event.fingerprint : undefined };
  // A torn file is tried again at once if it is closed anew.
  const pacedMs = fileState.tornTries > 0 ? 0 : fileState.notBeforeMs;
  const isDoubtful = fileState.role === 'result' && event.evidence === 'doubtful';
  return {
    ...fileState,
    inherited: undefined,
    pending: true,
    closedAgain: fileState.pushing,
    blocked: false,
    left: undefined,
    notBeforeMs: Math.max(pacedMs, isDoubtful && !fileState.pending ? event.atMs + DOUBT_PAUSE_MS : 0),
    lastClose: {
      how: event.how,
      atMs: event.atMs,
      evidence: event.evidence ?? 'unknown',
      seq: event.seq ?? 0,
    },
    closes: fileState.closes + 1,
  };
}

function vouched(fileState: FileState): FileState {
  const { lastClose } = fileState;
  return lastClose === undefined
    ? fileState
    : { ...fileState, lastClose: { ...lastClose, evidence: 'clean' } };
}

function stored(
  fileState: FileState,
  { durable, atMs, tookMs }: Extract<FileEvent, { kind: 'stored' }>,
): FileState {
  return { ...nowDurable(fileState, durable), notBeforeMs: atMs + tookMs };
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
  return { ...fileState, pushing: false, closedAgain: false, seen: undefined };
}

function nowDurable(fileState: FileState, durable: Durable): FileState {
  const { seen, closedAgain } = fileState;
  return {
    ...ended(fileState),
    // Times are told in ms: what was changed in that of the last close, and is not what was read, is pushed as well.
    pending: closedAgain || (seen !== undefined && !sameContentFingerprint(seen, durable.fingerprint)),
    blocked: false,
    tornTries: 0,
    failedTries: 0,
    durable,
    durableCloses: fileState.readingCloses,
    left: undefined,
  };
}

function retried(fileState: FileState, tries: Partial<FileState>, atMs: number, pauseMs: number): FileState {
  const notBeforeMs = atMs + (fileState.closedAgain ? 0 : pauseMs);
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
  /** A flush, a notice or the end of the run: nothing is paced, but retries still wait. */
  readonly urgent: boolean;
}

export type NextStep =
  | { readonly kind: 'push'; readonly spoolFirst: boolean }
  | { readonly kind: 'wait'; readonly untilMs: number }
  | { readonly kind: 'nothing' };

/** Whether this file is to be pushed now, later, or not. */
export function nextStep(fileState: FileState, { nowMs, urgent }: PushContext): NextStep {
  if (!fileState.pending || fileState.pushing || fileState.blocked) return { kind: 'nothing' };
  const retrying = fileState.tornTries > 0 || fileState.failedTries > 0;
  if (fileState.notBeforeMs > nowMs && (retrying || !urgent))
    return { kind: 'wait', untilMs: fileState.notBeforeMs };
  return { kind: 'push', spoolFirst: fileState.spoolFirst };
}

/** `otherwise`: why it is not stored if nothing prevents it. */
export function whyLeft(fileState: FileState, otherwise = 'no time was left'): string | undefined {
  if (fileState.left !== undefined) return fileState.left;
  if (fileState.blocked) return 'another process still has it open for writing';
  if (fileState.tornTries > 0) return 'it changed each time it was read';
  return isDone(fileState) ? undefined : otherwise;
}
