// How a program times the files of its rounds: does it write them together, so that it must have stopped if the next
// one does not come? Pure; model/checkpoint/rounds knows what a round is.
import { isMidRound, type Rounds } from './rounds.ts';

/** Files come together if they are closer to one another than to the next round by this factor. */
const TOGETHER = 2;

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
