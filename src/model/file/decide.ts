// What to do about one declared file in one role: a pure function of its state and what happened.
// It promises that the last closed content is pushed or reported as left, that an unchanged baseline is
// never pushed, and that nothing counts as durable before the store has said so.
import type { Evidence } from './evidence.ts';
import { LATE_NEWS_MS, provenFromMs } from './suspect.ts';
import type { Track, Durable } from './file-state.ts';
import { sameFingerprint, type Fingerprint } from './fingerprint.ts';
import type { ClosedHow } from './events.ts';

/** A close of a result that would replace something stored waits this long, if nobody saw who closed it. */
export const HOLD_MS = 2000;
/** Closes in quick succession move that on by no more than this, so that a steady writer is stored at all. */
export const MOST_HOLD_MS = 10_000;
/** The same for closes of a result that may each be a death's. */
export const MOST_DOUBT_MS = 60_000;
const TORN_RETRY_MS = { first: 50, most: 5000 } as const;
const FAILED_RETRY_MS = { first: 1000, most: 60_000 } as const;

export type TrackEvent =
  /** `fingerprint` is given by scans: a state that is known already is no close. */
  | {
      readonly kind: 'closed';
      readonly how: ClosedHow;
      readonly atMs: number;
      /** `unknown` when it is left out. */
      readonly evidence?: Evidence | undefined;
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
  /** Somebody waits for it: no pacing, no hold but for a doubt, and a refused push or a writer is tried again now. */
  | { readonly kind: 'hurried' }
  /** The task itself says that what it has closed is whole (`capture flush`): whoever closed it, it was no death. */
  | { readonly kind: 'vouched' }
  /** The store works again, or there is little time: what failed is tried at once, and soon again. */
  | { readonly kind: 'retry-now' }
  /** The task ended with 0: what it inherited and did not touch is its result, too. */
  | { readonly kind: 'adopt' };

/** The state after an event. */
export function decide(track: Track, event: TrackEvent): Track {
  switch (event.kind) {
    case 'closed':
      return closed(track, event);
    case 'push-started':
      return { ...track, pushing: true, closedAgain: false, readingCloses: track.closes };
    case 'stored':
      return stored(track, event);
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
        durableCloses: track.readingCloses,
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
      return track.failedTries === 0
        ? track
        : { ...track, failedTries: 0, notBeforeMs: isDoubted(track) ? heldUntilMs(track) : 0 };
    case 'hurried':
      return {
        ...track,
        blocked: false,
        failedTries: 0,
        notBeforeMs: track.tornTries > 0 || isDoubted(track) ? track.notBeforeMs : 0,
      };
    case 'vouched':
      return vouched(track);
    case 'adopt':
      return track.inherited === undefined ? track : { ...track, inherited: undefined, pending: true };
  }
}

function closed(track: Track, event: Extract<TrackEvent, { kind: 'closed' }>): Track {
  if (event.fingerprint !== undefined && isKnown(track, event.fingerprint))
    return { ...track, blocked: false };
  if (event.how === 'scan' && isTold(track, event.fingerprint)) return { ...track, blocked: false };
  const waits = track.pushing ? track.closedAgain : track.pending;
  const pendingSinceMs = waits ? track.pendingSinceMs : event.atMs;
  const lastClose = { how: event.how, atMs: event.atMs, evidence: event.evidence ?? 'unknown' };
  const heldMs = heldUntilMs({ ...track, pendingSinceMs, lastClose });
  return {
    ...track,
    inherited: undefined,
    pending: true,
    pendingSinceMs,
    closedAgain: track.pushing,
    blocked: false,
    left: undefined,
    notBeforeMs: Math.max(pacedUntilMs(track), heldMs),
    lastClose,
    closes: track.closes + 1,
  };
}

function vouched(track: Track): Track {
  const { lastClose, pending, notBeforeMs } = track;
  if (lastClose === undefined) return track;
  return {
    ...track,
    lastClose: { ...lastClose, evidence: 'clean' },
    notBeforeMs: pending ? pacedUntilMs(track) : notBeforeMs,
  };
}

/** A file that was torn is tried again at once when it is closed anew, and an older close holds up no newer one. */
function pacedUntilMs(track: Track): number {
  const { tornTries, notBeforeMs } = track;
  return tornTries > 0 || notBeforeMs <= heldUntilMs(track) ? 0 : notBeforeMs;
}

/** Until when the last close is held: for what it would replace, or because it may be a death's; 0 for neither. */
function heldUntilMs(track: Track): number {
  const { role, replaces, pendingSinceMs, lastClose } = track;
  if (role !== 'result' || lastClose === undefined || provenFromMs(lastClose, undefined) === 0) return 0;
  if (isDoubted(track)) return Math.min(lastClose.atMs + LATE_NEWS_MS, pendingSinceMs + MOST_DOUBT_MS);
  return replaces ? Math.min(lastClose.atMs + HOLD_MS, pendingSinceMs + MOST_HOLD_MS) : 0;
}

/** True for a result whose last close may be a death's: under its good name it must not stand before that is settled. */
export function isDoubted({ role, lastClose }: Pick<Track, 'role' | 'lastClose'>): boolean {
  return role === 'result' && lastClose?.evidence === 'doubtful';
}

/** True for a closed result that is not sent before it is known that no death closed it, or is only just being sent. */
export function awaitsProof(track: Track): boolean {
  return !isSettled(track) && !track.blocked && heldUntilMs(track) > 0;
}

/** The same for a close that came during the push which ends now: it may be a death's as well as any other. */
function heldBehindMs(track: Track): number {
  return track.closedAgain ? heldUntilMs(track) : 0;
}

function stored(track: Track, { durable, atMs, tookMs }: Extract<TrackEvent, { kind: 'stored' }>): Track {
  const notBeforeMs = Math.max(atMs + tookMs, heldBehindMs({ ...track, replaces: true }));
  return { ...settled(track, durable), replaces: true, notBeforeMs };
}

/** A scan sees files that nobody touched since we last knew them. */
function isKnown(track: Track, fingerprint: Fingerprint): boolean {
  const known = track.inherited ?? (track.pending ? undefined : track.durable?.fingerprint);
  return known !== undefined && sameFingerprint(known, fingerprint);
}

/**
 * What waits to be pushed, or is on its way, is no new close because a scan sees it too: only what was written
 * after the last close is. A push that reads right now must not miss any change; else its content counts.
 */
function isTold(track: Track, seen: Fingerprint | undefined): boolean {
  const { lastClose, pending, pushing } = track;
  if (!pending) return false;
  if (lastClose === undefined || seen === undefined) return !pushing;
  const changedNs = pushing ? seen.ctimeNs : seen.mtimeNs;
  return BigInt(changedNs) / 1_000_000n <= BigInt(Math.floor(lastClose.atMs));
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
    durableCloses: track.readingCloses,
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
  const notBeforeMs = track.closedAgain ? Math.max(atMs, heldBehindMs(track)) : atMs + delay;
  return { ...ended(track), ...tries, pending: true, notBeforeMs };
}

/** True when the content of this many closes is durable or withdrawn, or can never be stored as it is. */
export function isOver(track: Track, closes: number): boolean {
  return track.durableCloses >= closes || (isSettled(track) && track.left !== undefined);
}

/** True when nothing of this file is waited for any more: it is durable, withdrawn, or given up for a reason. */
export function isSettled(track: Track): boolean {
  return !track.pending && !track.pushing;
}
