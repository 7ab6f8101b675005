// When a checkpoint's files are whole by the way in which the program writes them: how it times the files of a round,
// which rotating directories are still being written, and how long a set may wait before it is cut anyway. Pure;
// model/checkpoint/rounds knows what a round is, model/checkpoint/cut what a cut is.
import { growingSet, type GrowingSet } from '../growing-set.ts';
import { isMidRound, type Rounds } from './rounds.ts';

/** Files come together if they are closer to one another than to the next round by this factor. */
const TOGETHER = 2;

/** Does the program write the files of a round together, so that it must have stopped if the next one does not come? */
export interface Pace {
  /** Anything shorter is no pause. */
  readonly settleMs: number;
  /** The longest time between two files of a known round, not counting pauses. */
  readonly gapMs: number;
  /** The shortest time between two known rounds. */
  readonly restMs: number;
  /** A known round has been seen from its beginning to its end. */
  readonly isSeen: boolean;
  /** Where the newest close stands: between two known rounds, or in the middle of one. */
  readonly at: 'unknown' | 'between' | 'middle';
}

export function newPace(settleMs: number): Pace {
  return { settleMs, gapMs: 0, restMs: Infinity, isSeen: false, at: 'unknown' };
}

/** The pace after a close that came `sinceMs` after the one before it. `rounds`: as they are after this close. */
export function paced(pace: Pace, sinceMs: number, rounds: Rounds): Pace {
  const { settleMs, gapMs, restMs, isSeen } = pace;
  if (!rounds.confirmed) return newPace(settleMs);
  const next: Pace = { ...pace, at: isMidRound(rounds) ? 'middle' : 'between' };
  switch (pace.at) {
    case 'unknown':
      return next;
    case 'between':
      return { ...next, restMs: Math.min(restMs, sinceMs) };
    case 'middle': {
      const isPause = isSeen && sinceMs > Math.max(settleMs, TOGETHER * gapMs);
      return { ...next, isSeen: isSeen || rounds.ended, gapMs: isPause ? gapMs : Math.max(gapMs, sinceMs) };
    }
  }
}

/**
 * True if the task has stopped in the middle of a known round, and closed nothing for `sinceMs`. Never true if files
 * may take turns, each being a checkpoint by itself: then the next file comes as late as the next round does.
 */
export function hasStopped({ settleMs, gapMs, restMs, isSeen, at }: Pace, sinceMs: number): boolean {
  return at === 'middle' && isSeen && TOGETHER * gapMs <= restMs && sinceMs > Math.max(settleMs, gapMs);
}

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

/**
 * Directories that rotate and are written file by file: which of them are still being written. One is whole once the
 * next one begins, the program says so, or it was renamed into place; a pause proves nothing.
 */
export interface OpenUnits {
  readonly begun: GrowingSet<string>;
  /** Those that may still get files. */
  readonly open: ReadonlySet<string>;
  /** The newest close has shown that all others are whole, and nothing has changed them since. */
  readonly sealed: boolean;
}

/** `begun`: those that were restored. */
export function newUnits(begun: Iterable<string>): OpenUnits {
  return { begun: growingSet(begun), open: new Set(), sealed: false };
}

/** `inPlace`: the directory was renamed there, with everything in it. */
export function closedInUnit({ begun, open, sealed }: OpenUnits, unit: string, inPlace: boolean): OpenUnits {
  if (begun.has(unit)) {
    if (inPlace) return { begun, open: without(open, unit), sealed: open.size === 0 || sealed };
    return { begun, open: new Set(open).add(unit), sealed: sealed && open.has(unit) };
  }
  return {
    begun: begun.with(unit),
    open: new Set(inPlace ? [] : [unit]),
    sealed: begun.size > 0 || inPlace,
  };
}

/** The program says that what it has written is whole. */
export function unitsSaid(units: OpenUnits): OpenUnits {
  return { ...units, open: new Set(), sealed: true };
}

/** After a queue overflow any of them may have changed. */
export function unitsLost(units: OpenUnits): OpenUnits {
  return { ...units, open: new Set(units.begun), sealed: false };
}

function without(all: ReadonlySet<string>, one: string): ReadonlySet<string> {
  return new Set([...all].filter((other) => other !== one));
}
