// What to do about one declared file in one role: pure functions of its state and an event. They promise four things.
// The last closed content is pushed, or reported as left. An unchanged baseline is never pushed. A file has at most
// one push at a time. Nothing counts as durable before the store has acknowledged it.
import { type BackOff, pauseAfter } from '../waiting.ts';
import { type Evidence } from './evidence.ts';
import {
  type ClosedHow,
  type Durable,
  type FileState,
  type Fingerprint,
  isInOrder,
  sameContentFingerprint,
  sameFingerprint,
} from './file-state.ts';
/**
 * The push of a doubtful close of a result waits this long. If that close was the task's last act, the end of the task
 * is known by then, and the result takes one request instead of four.
 */
const DOUBTFUL_PAUSE_MS = 100;
const AFTER_TORN: BackOff = { firstMs: 50, mostMs: 5000 };
const AFTER_FAILED: BackOff = { firstMs: 1000, mostMs: 60_000 };

export type FileEvent =
  /** Scans give a `fingerprint`: a state that is already known is not a close. */
  | {
      readonly kind: 'closed';
      readonly how: ClosedHow;
      readonly atMs: number;
      /** Default: `unknown`. */
      readonly evidence?: Evidence | undefined;
      /** {@link Close.seq}; default 0. */
      readonly seq?: number;
      /** {@link ClosedEvent.since} */
      readonly since?: number | undefined;
      readonly fingerprint?: Fingerprint;
    }
  /** `covers`: the push reads an older state than the newest close made: the state after this many closes. */
  | { readonly kind: 'push-started'; readonly covers?: number | undefined }
  | { readonly kind: 'stored'; readonly durable: Durable; readonly atMs: number; readonly tookMs: number }
  /** The content equals the baseline: nothing was sent. */
  | { readonly kind: 'unchanged'; readonly durable: Durable }
  | { readonly kind: 'has-writer' }
  | { readonly kind: 'torn'; readonly atMs: number }
  | { readonly kind: 'gone' }
  /** No set needs this state of the checkpoint: the file has left the set, or the set holds a newer state. */
  | { readonly kind: 'dropped' }
  | { readonly kind: 'failed'; readonly why: string; readonly atMs: number }
  /** It can never be pushed in this state (a link out of the work directory, another user's secret). */
  | { readonly kind: 'refused'; readonly why: string }
  /** A checkpoint generation needs exactly this content: no pacing. A torn file still waits for its retry. */
  | { readonly kind: 'wanted' }
  /** Somebody waits for it: no pacing. After a refused push, or one that found a writer, it is tried again now. */
  | { readonly kind: 'hurried' }
  /** The task itself says that what it has closed is whole (`capture flush`): no dying process closed it. */
  | { readonly kind: 'vouched' }
  /** The store works again, or time is short: failed pushes are retried at once, and soon again after that. */
  | { readonly kind: 'retry-now' }
  /** The task ended with 0: inherited files that it did not touch are its results, too. */
  | { readonly kind: 'adopt' };

/** Returns the state after an event. */
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
      // A close arrived during the push, so the writer it found may be gone already: look again.
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
    durableCloses: coveredCloses(fileState),
  };
}

function pushStarted(fileState: FileState, readingCloses: number): FileState {
  return { ...fileState, pushing: true, closedAgain: fileState.closes > readingCloses, readingCloses };
}

function dropped(fileState: FileState): FileState {
  const durableCloses = fileState.pushing ? coveredCloses(fileState) : fileState.closes;
  const over = { notBeforeMs: 0, tornTries: 0, failedTries: 0, left: undefined, durableCloses };
  return { ...ended(fileState), ...over, pending: fileState.pushing && fileState.closedAgain };
}

function failed(fileState: FileState, { why, atMs }: Extract<FileEvent, { kind: 'failed' }>): FileState {
  const tries = { failedTries: fileState.failedTries + 1 };
  const next = retried(fileState, tries, atMs, pauseAfter(AFTER_FAILED, fileState.failedTries));
  return { ...next, left: why };
}

function wanted(fileState: FileState): FileState {
  // A push that the store refused waits for its retry even here: callers ask again and again.
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
  if (event.how === 'scan' && isKnownClose(fileState, event.fingerprint))
    return scanned(fileState, event.fingerprint);
  // A new close of a torn file is pushed at once.
  const pacedMs = fileState.tornTries > 0 ? 0 : fileState.notBeforeMs;
  const isDoubtful = fileState.role === 'result' && event.evidence === 'doubtful';
  return {
    ...fileState,
    inherited: undefined,
    pending: true,
    closedAgain: fileState.pushing,
    blocked: false,
    left: undefined,
    notBeforeMs: Math.max(pacedMs, isDoubtful && !fileState.pending ? event.atMs + DOUBTFUL_PAUSE_MS : 0),
    lastClose: {
      how: event.how,
      atMs: event.atMs,
      evidence: event.evidence ?? 'unknown',
      seq: event.seq ?? 0,
      ...(event.how === 'close' && !wasClosed(fileState) ? { since: event.since ?? 0 } : {}),
    },
    closes: fileState.closes + 1,
  };
}

/** A scan sees a file, not its close. */
function wasClosed({ lastClose }: FileState): boolean {
  return lastClose !== undefined && isInOrder(lastClose.how);
}

/**
 * A scan saw the state of a known close, or so it seems: times are in whole ms. The push in progress may read an older
 * state. So the seen state counts as one more close, which is over if the push has read it.
 */
function scanned(fileState: FileState, now: Fingerprint | undefined): FileState {
  const { pushing, seen, closes } = fileState;
  if (!pushing || now === undefined) return { ...fileState, blocked: false };
  const isSeen = seen !== undefined && sameFingerprint(seen, now);
  return { ...fileState, blocked: false, seen: now, closes: isSeen ? closes : closes + 1 };
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

/** A scan also sees files that nobody has touched since the last known state. */
function isKnown(fileState: FileState, fingerprint: Fingerprint): boolean {
  const known = fileState.inherited ?? (fileState.pending ? undefined : fileState.durable?.fingerprint);
  return known !== undefined && sameFingerprint(known, fingerprint);
}

/**
 * A file that is pending or being pushed has no new close just because a scan sees it: only a write after the last
 * close makes one. A push that is reading now must not miss any change; otherwise the content decides.
 */
function isKnownClose(fileState: FileState, seen: Fingerprint | undefined): boolean {
  const { lastClose, pending, pushing, blocked } = fileState;
  // Whoever had it open at the last look may have died since, and the event of that close may be lost.
  if (!pending || blocked) return false;
  if (lastClose === undefined || seen === undefined) return !pushing;
  const changedNs = pushing ? seen.ctimeNs : seen.mtimeNs;
  return BigInt(changedNs) / 1_000_000n <= BigInt(Math.floor(lastClose.atMs));
}

function ended(fileState: FileState): FileState {
  return { ...fileState, pushing: false, closedAgain: false, seen: undefined };
}

/** How many closes are over once the push in progress has read the newest state, or once the file is gone. */
function coveredCloses({ closedAgain, readingCloses, closes }: FileState): number {
  return closedAgain ? readingCloses : closes;
}

function nowDurable(fileState: FileState, durable: Durable): FileState {
  const { seen, readingCloses } = fileState;
  const isNewerSeen = seen !== undefined && !sameContentFingerprint(seen, durable.fingerprint);
  return {
    ...ended(fileState),
    pending: fileState.closedAgain || isNewerSeen,
    blocked: false,
    tornTries: 0,
    failedTries: 0,
    durable,
    durableCloses: isNewerSeen ? readingCloses : coveredCloses(fileState),
    left: undefined,
  };
}

function retried(fileState: FileState, tries: Partial<FileState>, atMs: number, pauseMs: number): FileState {
  const notBeforeMs = atMs + (fileState.closedAgain ? 0 : pauseMs);
  return { ...ended(fileState), ...tries, pending: true, notBeforeMs };
}

/** True if the content of this many closes is durable, withdrawn, or can never be stored. */
export function isOver(fileState: FileState, closes: number): boolean {
  return fileState.durableCloses >= closes || (isDone(fileState) && fileState.left !== undefined);
}

/** True if nothing of this file is outstanding: it is durable, withdrawn, or given up for a reason. */
export function isDone(fileState: FileState): boolean {
  return !fileState.pending && !fileState.pushing;
}

/** The state of the whole run when a push is considered. */
export interface PushContext {
  readonly nowMs: number;
  /** A flush, a notice or the end of the run: no pacing, but retries still wait. */
  readonly urgent: boolean;
}

export type NextStep =
  | { readonly kind: 'push'; readonly spoolFirst: boolean }
  | { readonly kind: 'wait'; readonly untilMs: number }
  | { readonly kind: 'nothing' };

/** Whether to push this file now, later, or not at all. */
export function nextStep(fileState: FileState, { nowMs, urgent }: PushContext): NextStep {
  if (!fileState.pending || fileState.pushing || fileState.blocked) return { kind: 'nothing' };
  const retrying = fileState.tornTries > 0 || fileState.failedTries > 0;
  if (fileState.notBeforeMs > nowMs && (retrying || !urgent))
    return { kind: 'wait', untilMs: fileState.notBeforeMs };
  return { kind: 'push', spoolFirst: fileState.spoolFirst };
}

/** `otherwise`: the reason to give if nothing prevents the push. */
export function whyLeft(fileState: FileState, otherwise = 'no time was left'): string | undefined {
  if (fileState.left !== undefined) return fileState.left;
  if (fileState.blocked) return 'another process still has it open for writing';
  if (fileState.tornTries > 0) return 'it changed each time it was read';
  return isDone(fileState) ? undefined : otherwise;
}
