// What to do about one declared file in one role: a pure function of its state and what happened.
// It promises that the last closed content is pushed or reported as left, that an unchanged baseline is
// never pushed, and that nothing counts as durable before the store has said so.
import { sameFingerprint, type Fingerprint } from './fingerprint.ts';
import type { ClosedHow } from './events.ts';
import type { RelPath } from './path.ts';

/** A result goes to one key that is replaced; a checkpoint becomes a new object each time. */
export type TrackRole = 'result' | 'checkpoint';

/** A close of a result that would replace something stored waits this long: it may be a death's. */
export const HOLD_MS = 2000;
const TORN_RETRY_MS = { first: 50, most: 5000 } as const;
const FAILED_RETRY_MS = { first: 1000, most: 60_000 } as const;

/** Content that the store has acknowledged. */
export interface Durable {
  readonly fingerprint: Fingerprint;
  readonly md5: string;
  readonly size: number;
}

export interface Close {
  readonly how: ClosedHow;
  readonly atMs: number;
}

export interface Track {
  readonly path: RelPath;
  readonly role: TrackRole;
  /** There before the task started and not closed since. */
  readonly inherited: Fingerprint | undefined;
  /** There is content that was closed and is not known to be durable. */
  readonly pending: boolean;
  /** A push is under way; closes that arrive meanwhile become one more. */
  readonly pushing: boolean;
  readonly closedAgain: boolean;
  /** Somebody has it open for writing: its close will come, or the final scan. */
  readonly blocked: boolean;
  /** No push before this instant: pacing, hold or retry. */
  readonly notBeforeMs: number;
  readonly tornTries: number;
  /** It was torn once: from then on it is copied to the spool first, so that a slow link cannot starve it. */
  readonly spoolFirst: boolean;
  readonly failedTries: number;
  readonly lastClose: Close | undefined;
  /** Closes since the task started. */
  readonly closes: number;
  /** A push would replace an object that is stored under the result's key. */
  readonly replaces: boolean;
  readonly durable: Durable | undefined;
  /** Why it is not stored, once that is final for this content. */
  readonly left: string | undefined;
}

export type TrackEvent =
  /** `fingerprint` is given by scans: a state that is known already is no close. */
  | {
      readonly kind: 'closed';
      readonly how: ClosedHow;
      readonly atMs: number;
      readonly fingerprint?: Fingerprint;
    }
  | { readonly kind: 'push-started' }
  | { readonly kind: 'stored'; readonly durable: Durable; readonly atMs: number; readonly tookMs: number }
  /** The content is that of the baseline: nothing was sent. */
  | { readonly kind: 'unchanged'; readonly durable: Durable }
  | { readonly kind: 'has-writer' }
  | { readonly kind: 'torn'; readonly atMs: number }
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly why: string; readonly atMs: number }
  /** It can never be pushed as it is (a link out of the work directory, another user's secret). */
  | { readonly kind: 'refused'; readonly why: string }
  /** A checkpoint generation needs this very content: no pacing. A torn file still waits for its next try. */
  | { readonly kind: 'wanted' }
  /** The store works again, or there is little time: what failed is tried at once, and soon again. */
  | { readonly kind: 'retry-now' }
  /** The task ended with 0: what it inherited and did not touch is its result, too. */
  | { readonly kind: 'adopt' };

export function newTrack(path: RelPath, role: TrackRole, replaces: boolean): Track {
  return {
    path,
    role,
    inherited: undefined,
    pending: false,
    pushing: false,
    closedAgain: false,
    blocked: false,
    notBeforeMs: 0,
    tornTries: 0,
    spoolFirst: false,
    failedTries: 0,
    lastClose: undefined,
    closes: 0,
    replaces,
    durable: undefined,
    left: undefined,
  };
}

/** The state after an event. */
export function decide(track: Track, event: TrackEvent): Track {
  switch (event.kind) {
    case 'closed':
      return closed(track, event);
    case 'push-started':
      return { ...track, pushing: true, closedAgain: false };
    case 'stored':
      return { ...settled(track, event.durable), replaces: true, notBeforeMs: event.atMs + event.tookMs };
    case 'unchanged':
      return settled(track, event.durable);
    case 'has-writer':
      // A close that came while the push looked means that this writer may be gone already: look again.
      return { ...ended(track), pending: true, blocked: !track.closedAgain };
    case 'torn':
      return retried(
        track,
        { tornTries: track.tornTries + 1, spoolFirst: true },
        event.atMs,
        TORN_RETRY_MS,
        track.tornTries,
      );
    case 'gone':
      return {
        ...ended(track),
        pending: track.closedAgain,
        tornTries: 0,
        left: undefined,
        inherited: undefined,
      };
    case 'failed': {
      const next = retried(
        track,
        { failedTries: track.failedTries + 1 },
        event.atMs,
        FAILED_RETRY_MS,
        track.failedTries,
      );
      return { ...next, left: event.why };
    }
    case 'refused':
      return { ...ended(track), pending: track.closedAgain, left: event.why };
    case 'wanted':
      return {
        ...track,
        pending: true,
        blocked: false,
        notBeforeMs: track.tornTries > 0 ? track.notBeforeMs : 0,
      };
    case 'retry-now':
      return track.failedTries === 0 ? track : { ...track, failedTries: 0, notBeforeMs: 0 };
    case 'adopt':
      return track.inherited === undefined ? track : { ...track, inherited: undefined, pending: true };
  }
}

function closed(track: Track, event: Extract<TrackEvent, { kind: 'closed' }>): Track {
  if (event.fingerprint !== undefined && isKnown(track, event.fingerprint))
    return { ...track, blocked: false };
  // What waits to be pushed already is no new close because a scan sees it, too.
  if (event.how === 'scan' && track.pending && !track.pushing) return { ...track, blocked: false };
  const held = track.role === 'result' && track.replaces ? event.atMs + HOLD_MS : 0;
  return {
    ...track,
    inherited: undefined,
    pending: true,
    closedAgain: track.pushing,
    blocked: false,
    left: undefined,
    // A file that was torn is tried again at once when it is closed anew.
    notBeforeMs: Math.max(track.tornTries > 0 ? 0 : track.notBeforeMs, held),
    lastClose: { how: event.how, atMs: event.atMs },
    closes: track.closes + 1,
  };
}

/** A scan sees files that nobody touched since we last knew them. */
function isKnown(track: Track, fingerprint: Fingerprint): boolean {
  const known = track.inherited ?? (track.pending ? undefined : track.durable?.fingerprint);
  return known !== undefined && sameFingerprint(known, fingerprint);
}

function ended(track: Track): Track {
  return { ...track, pushing: false, closedAgain: false };
}

function settled(track: Track, durable: Durable): Track {
  return {
    ...ended(track),
    pending: track.closedAgain,
    blocked: false,
    tornTries: 0,
    failedTries: 0,
    durable,
    left: undefined,
  };
}

function retried(
  track: Track,
  tries: Partial<Track>,
  atMs: number,
  pause: { readonly first: number; readonly most: number },
  before: number,
): Track {
  const delay = Math.min(pause.most, pause.first * 2 ** before);
  return { ...ended(track), ...tries, pending: true, notBeforeMs: track.closedAgain ? atMs : atMs + delay };
}

/** What is true of the whole run when a push is considered. */
export interface PushContext {
  readonly nowMs: number;
  /** A flush, a notice or the end of the run: pacing and holding no longer count, retries do. */
  readonly urgent: boolean;
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
  if (context.holdReplacing && track.role === 'result' && track.replaces) return { kind: 'nothing' };
  const retrying = track.tornTries > 0 || track.failedTries > 0;
  if (track.notBeforeMs > context.nowMs && (retrying || !context.urgent)) {
    return { kind: 'wait', untilMs: track.notBeforeMs };
  }
  return { kind: 'push', spoolFirst: track.spoolFirst };
}

/** True when nothing of this file is waited for any more: it is durable, withdrawn, or given up for a reason. */
export function isSettled(track: Track): boolean {
  return !track.pending && !track.pushing;
}
