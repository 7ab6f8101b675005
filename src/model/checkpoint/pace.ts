// How a program times the files of its rounds: whether it writes them together, so that it has stopped if the next one
// does not come. Pure; what a round is, is model/checkpoint/rounds'.
import { isMidRound, type Rounds } from './rounds.ts';

/** Files come together if they are closer to one another than to the next round by this factor. */
const TOGETHER = 2;

export interface Pace {
  /** Less than this is no pause. */
  readonly settleMs: number;
  /** The longest time between two files of a known round, but for pauses. */
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

/** The pace after a close that came `sinceMs` after the one before it and has made the rounds what they are now. */
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
 * True for a task that has stopped in the middle of a known round, and closed nothing for `sinceMs`. Never where files
 * may take turns, and each of them alone be a checkpoint: then one comes as long after another as the next round does.
 */
export function hasStopped({ settleMs, gapMs, restMs, isSeen, at }: Pace, sinceMs: number): boolean {
  return at === 'middle' && isSeen && TOGETHER * gapMs <= restMs && sinceMs > Math.max(settleMs, gapMs);
}
