// When is a set of checkpoint files complete, all of one moment? Pure: counts the closes of the members and
// says when a cut may be taken. It must never say so between two files of one round of writing.
import type { RelPath } from './path.ts';

/**
 * Programs write their checkpoint files in rounds. The first time that every required member has been closed
 * teaches the round (`pattern`: closes of each member); from then on the set is complete when each member's
 * count is the same multiple of it. Counts of "closed anew since the last cut" alone would not do: a cut that
 * comes late by one close would then pair new with old for ever.
 */
export interface CutState {
  /** Members that the first generation waits for: exactly named, or of the generation that was restored. */
  readonly required: ReadonlySet<RelPath>;
  readonly pattern: ReadonlyMap<RelPath, number> | undefined;
  /** Closes since the last cut that ended a round; undefined after a queue overflow: nobody knows. */
  readonly counts: ReadonlyMap<RelPath, number> | undefined;
  readonly lastCloseMs: number;
  /** The newest close was of a file that matches `--checkpoint-last`. */
  readonly lastMatched: boolean;
  /** Something was closed since the last cut. */
  readonly fresh: boolean;
}

export function newCut(required: Iterable<RelPath>): CutState {
  return {
    required: new Set(required),
    pattern: undefined,
    counts: new Map(),
    lastCloseMs: 0,
    lastMatched: false,
    fresh: false,
  };
}

export function memberClosed(state: CutState, path: RelPath, atMs: number, isLast: boolean): CutState {
  const next = { ...state, lastCloseMs: atMs, lastMatched: isLast, fresh: true };
  if (state.counts === undefined) return next;
  const counts = new Map(state.counts).set(path, (state.counts.get(path) ?? 0) + 1);
  const taught =
    state.pattern === undefined &&
    state.required.size > 0 &&
    [...state.required].every((member) => (counts.get(member) ?? 0) > 0);
  return { ...next, counts, pattern: taught ? counts : state.pattern };
}

/** After a queue overflow the order of closes is lost: only a quiet set is a complete one. */
export function countsLost(state: CutState, atMs: number): CutState {
  return { ...state, counts: undefined, lastCloseMs: atMs, lastMatched: false, fresh: true };
}

export interface CutRules {
  readonly settleMs: number;
  /** `--checkpoint-last` was given: nothing else completes a set. */
  readonly byLast: boolean;
  readonly nowMs: number;
}

export type Completeness =
  | { readonly kind: 'complete' }
  /** Quiet until then, it is complete. */
  | { readonly kind: 'settling'; readonly untilMs: number }
  | { readonly kind: 'incomplete' };

/** `members`: the declared checkpoint files that exist now. */
export function completeness(state: CutState, members: readonly RelPath[], rules: CutRules): Completeness {
  if (!state.fresh || members.length === 0) return { kind: 'incomplete' };
  if (rules.byLast) return { kind: state.lastMatched ? 'complete' : 'incomplete' };
  if (endsRound(state, members)) return { kind: 'complete' };
  const untilMs = state.lastCloseMs + rules.settleMs;
  return untilMs <= rules.nowMs ? { kind: 'complete' } : { kind: 'settling', untilMs };
}

/** True when every member stands at the end of the same number of rounds. */
export function endsRound(state: CutState, members: readonly RelPath[]): boolean {
  if (members.length === 1 && members.every((member) => coversRequired(state, member))) return true;
  const { counts, pattern } = state;
  if (counts === undefined || pattern === undefined) return false;
  if ([...counts.keys()].some((path) => !pattern.has(path))) return false;
  const rounds = [...pattern].map(([path, closes]) => (counts.get(path) ?? 0) / closes);
  const first = rounds[0] ?? 0;
  return first >= 1 && Number.isInteger(first) && rounds.every((n) => n === first);
}

/** One file alone is of one moment, unless others are still to come. */
function coversRequired(state: CutState, member: RelPath): boolean {
  return state.required.size > 0 && [...state.required].every((required) => required === member);
}

/** A cut was taken now, whether or not it will hold: what is closed from here on belongs to the next. */
export function cutTaken(state: CutState, members: readonly RelPath[]): CutState {
  const taken = { ...state, fresh: false, lastMatched: false };
  if (endsRound(state, members)) return { ...taken, counts: new Map() };
  // A set that was quiet in the middle of a known round keeps its counts, so that the round can still end.
  const all = members.every((member) => (state.counts?.get(member) ?? 0) > 0);
  if (state.counts !== undefined && !all) return taken;
  return { ...taken, pattern: state.counts ?? state.pattern, counts: new Map() };
}

/** The cut did not hold: the set is tried again when it has been quiet, or when its next round ends. */
export function cutGivenUp(state: CutState): CutState {
  return { ...state, fresh: true };
}
