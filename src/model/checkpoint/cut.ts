// When is a set of checkpoint files cut, and what is the cut worth? Pure: it is told of closes and of the time. Never
// calls a cut proven if it lies between two files of one round, or holds a directory that is still being written.
// While the task writes, what was closed never waits for longer than the bound.
import type { ClosedHow } from '../file/file-state.ts';
import type { RelPath } from '../path.ts';
import {
  BOUND_MS,
  boundOf,
  closedInUnit,
  hasStopped,
  instantDueMs,
  isLate,
  newPace,
  newUnits,
  type OpenUnits,
  type Pace,
  paced,
  unitsLost,
  unitsSaid,
} from './pace.ts';
import type { Rotates } from './rotation.ts';
import {
  boundPassed,
  closedInRound,
  mayRest,
  newRounds,
  orderLost,
  restTaken,
  type Rounds,
} from './rounds.ts';

export interface CutRules {
  readonly settleMs: number;
  /** `--checkpoint-last` was given: nothing else proves that a set is complete. */
  readonly byLast: boolean;
  readonly rotationOf: Rotates;
}

export interface CutState {
  readonly rules: CutRules;
  readonly rounds: Rounds;
  /** Used instead of rounds if all checkpoints are in directories that rotate. */
  readonly units: OpenUnits | undefined;
  /** Set if exactly one file is declared, or was restored: then each of its closes is a whole set. */
  readonly single: RelPath | undefined;
  readonly lastCloseMs: number;
  readonly pace: Pace;
  /** True if the newest close was of a file that matches `--checkpoint-last`. */
  readonly lastMatched: boolean;
  /** The directory of that file, if directories rotate. */
  readonly lastDirectory: string | undefined;
  /** A file that was closed after that file: in its own directory, or before a cut could be taken. */
  readonly afterLast: RelPath | undefined;
  /** The program itself has said that everything that it has closed is whole, and has closed nothing since. */
  readonly said: boolean;
  /** The time of the oldest close that no cut covers; undefined: all are covered. */
  readonly staleSinceMs: number | undefined;
  /**
   * The time of the oldest close since a set was proven, or since we stopped waiting for files that were not closed.
   */
  readonly unprovenSinceMs: number | undefined;
  /** When a proven set was cut last. */
  readonly provenCutMs: number;
  /** What the newest cut was worth. */
  readonly coveredBy: Proof | undefined;
}

export interface Known {
  /** Exactly named files, or those of the generation that was restored. */
  readonly members: readonly RelPath[];
  /** There will be no other members. */
  readonly complete: boolean;
  /** All checkpoints are declared by one pattern whose star names a directory. */
  readonly inUnits: boolean;
  /** The task ran before we watched: nobody saw where its round began. */
  readonly inMidst: boolean;
}

export function newCut(rules: CutRules, { members, complete, inUnits, inMidst }: Known): CutState {
  const rounds = newRounds(members, complete, kinOf(rules));
  const units = newUnits(members.flatMap((path) => rules.rotationOf(path)?.unit ?? []));
  return {
    rules,
    rounds: inMidst ? orderLost(rounds) : rounds,
    units: inUnits ? (inMidst ? unitsLost(units) : units) : undefined,
    single: complete && members.length === 1 ? members[0] : undefined,
    lastCloseMs: -Infinity,
    pace: newPace(rules.settleMs),
    lastMatched: false,
    lastDirectory: undefined,
    afterLast: undefined,
    said: false,
    staleSinceMs: undefined,
    unprovenSinceMs: undefined,
    provenCutMs: -Infinity,
    coveredBy: undefined,
  };
}

export interface MemberClose {
  readonly path: RelPath;
  readonly how: ClosedHow;
  readonly atMs: number;
  readonly isLast: boolean;
}

export function memberClosed(state: CutState, { path, how, atMs, isLast }: MemberClose): CutState {
  const { rules, rounds, units, lastMatched } = state;
  const rotation = rules.rotationOf(path);
  // A walk finds files in the order of the directory, not in that of their closes.
  const isFound = how === 'scan' || how === 'dir-rename';
  const isSameDirectory = rotation?.kind === 'directory' && rotation.unit === state.lastDirectory;
  const comesAfter = !isLast && !isFound && (lastMatched || isSameDirectory);
  const sinceMs = atMs - state.lastCloseMs;
  const unit = rotation?.unit;
  const next =
    units === undefined ? closedInRound(rounds, path, sinceMs >= rules.settleMs, kinOf(rules)) : rounds;
  const pace = paced(state.pace, sinceMs, next);
  // The task was suspended meanwhile, and has written nothing that the bound could count for.
  const isResumed = sinceMs >= BOUND_MS && hasStopped(state.pace, sinceMs) && pace.at === 'middle';
  return {
    ...state,
    rounds: next,
    units: units && unit !== undefined ? closedInUnit(units, unit, how === 'dir-rename') : units,
    lastCloseMs: atMs,
    pace,
    lastMatched: isLast || (lastMatched && isFound),
    afterLast: comesAfter ? path : state.afterLast,
    lastDirectory: isLast && rotation?.kind === 'directory' ? rotation.unit : state.lastDirectory,
    said: false,
    staleSinceMs: isResumed ? atMs : (state.staleSinceMs ?? atMs),
    unprovenSinceMs: state.unprovenSinceMs ?? atMs,
  };
}

/** After a queue overflow the order of closes is unknown. */
export function closesLost(state: CutState, atMs: number): CutState {
  const { rounds, rules, units, staleSinceMs } = state;
  return {
    ...state,
    rounds: orderLost(rounds),
    pace: newPace(rules.settleMs),
    units: units && unitsLost(units),
    lastCloseMs: atMs,
    lastMatched: false,
    said: false,
    staleSinceMs: staleSinceMs ?? atMs,
  };
}

/** The program says that it is between two rounds of writing (`capture flush`). */
export function programSaid(state: CutState): CutState {
  const { units, staleSinceMs } = state;
  return { ...state, said: staleSinceMs !== undefined, units: units && unitsSaid(units) };
}

/** How we know that a set is whole. `instant`: we do not, but all its files were closed at one instant. */
export type Proof = 'single' | 'round' | 'unit' | 'named' | 'said' | 'rest' | 'instant';

export type Plan =
  /** A cut of all members, except those in the directories of `without`: these are still being written. */
  | { readonly kind: 'cut'; readonly proof: Proof; readonly without: ReadonlySet<string> }
  /** Nothing more has to be closed for a proven set: it only takes time. */
  | { readonly kind: 'rest'; readonly untilMs: number }
  /** A proven set needs more closes. At `untilMs` a cut of an instant is due; undefined: only after the next close. */
  | { readonly kind: 'wait'; readonly untilMs: number | undefined }
  /** Everything that was closed is covered. */
  | { readonly kind: 'covered' };

export interface PlanAt {
  readonly nowMs: number;
  /** How long sending a set takes, as measured. */
  readonly sendMs: number;
  /** A proven set was tried just now, and a member was being written. */
  readonly tried: boolean;
}

export function plan(state: CutState, { nowMs, sendMs, tried }: PlanAt): Plan {
  const { units, staleSinceMs, lastCloseMs, pace, rules, provenCutMs } = state;
  if (staleSinceMs === undefined) return { kind: 'covered' };
  const proof = tried ? undefined : proofOf(state, nowMs);
  if (proof !== undefined) return { kind: 'cut', proof, without: units?.open ?? new Set() };
  const dueMs = instantDueMs(staleSinceMs, provenCutMs, sendMs);
  const isDue = nowMs >= dueMs;
  if (isDue && !hasStopped(pace, nowMs - lastCloseMs))
    return { kind: 'cut', proof: 'instant', without: new Set() };
  const restMs = lastCloseMs + rules.settleMs;
  return restProves(state) && !tried && restMs < dueMs
    ? { kind: 'rest', untilMs: restMs }
    : { kind: 'wait', untilMs: isDue ? undefined : dueMs };
}

function proofOf(state: CutState, nowMs: number): Proof | undefined {
  const { rules, rounds, units, single, lastMatched, said, lastCloseMs } = state;
  if (rules.byLast) return lastMatched ? 'named' : undefined;
  if (single !== undefined && rounds.seen.size === 1) return 'single';
  if (units !== undefined) return units.sealed ? (said ? 'said' : 'unit') : undefined;
  if (rounds.ended) return 'round';
  if (!restProves(state)) return undefined;
  if (said) return 'said';
  return lastCloseMs + rules.settleMs <= nowMs ? 'rest' : undefined;
}

/** True if a proven set only needs a pause, or the word of the program. */
function restProves({ rules, rounds, units }: CutState): boolean {
  return !rules.byLast && units === undefined && mayRest(rounds);
}

/** True if what was closed has waited for longer than the bound, with some time for what is on its way. */
export function isOverdue({ staleSinceMs }: CutState, nowMs: number, sendMs: number): boolean {
  return staleSinceMs !== undefined && isLate(staleSinceMs, nowMs, sendMs);
}

type Worth = 'proven' | 'instant' | 'incomplete';

/**
 * What all members are worth as they are at the end of a task that failed or was stopped. In the middle of a round
 * they are known to be of two rounds, and then a proven set that is younger than the bound is worth more than any
 * instant.
 */
export function worthAtEnd(state: CutState, nowMs: number, sendMs: number): Worth {
  const { staleSinceMs, coveredBy, units, rounds, provenCutMs } = state;
  const isCovered = staleSinceMs === undefined && coveredBy !== undefined && coveredBy !== 'instant';
  const isWhole = units === undefined ? proofOf(state, nowMs) !== undefined : units.open.size === 0;
  if (isCovered || isWhole) return 'proven';
  const isMixed = units === undefined && rounds.pattern !== undefined;
  return !isMixed && nowMs >= provenCutMs + boundOf(sendMs) ? 'instant' : 'incomplete';
}

/** A cut was taken now, whether or not it will hold: what is closed from here on belongs to the next. */
export function cutTaken(state: CutState, proof: Proof, nowMs: number): CutState {
  const { units, unprovenSinceMs = nowMs } = state;
  const isOpen = units !== undefined && units.open.size > 0 && proof === 'unit';
  const isAwaited = nowMs - unprovenSinceMs < BOUND_MS;
  return {
    ...state,
    rounds: learned(state, proof, isAwaited),
    units: units && { ...(proof === 'named' ? unitsSaid(units) : units), sealed: false },
    lastMatched: false,
    said: false,
    // The cut does not hold the directory that has begun.
    staleSinceMs: isOpen ? state.lastCloseMs : undefined,
    unprovenSinceMs: proof === 'instant' && isAwaited ? unprovenSinceMs : undefined,
    provenCutMs: proof === 'instant' ? state.provenCutMs : nowMs,
    coveredBy: proof,
  };
}

function learned({ rounds, rules }: CutState, proof: Proof, isAwaited: boolean): Rounds {
  const over = { ...rounds, ended: false };
  if (proof === 'instant') return isAwaited ? over : boundPassed(over, kinOf(rules));
  return proof === 'rest' || proof === 'said' ? restTaken(over) : over;
}

/** The cut that was taken of `before` did not hold: what it covered is not covered. */
export function cutGivenUp(state: CutState, before: CutState): CutState {
  return {
    ...state,
    staleSinceMs: Math.min(before.staleSinceMs ?? Infinity, state.staleSinceMs ?? Infinity),
    provenCutMs: before.provenCutMs,
    coveredBy: before.coveredBy,
  };
}

function kinOf({ rotationOf }: CutRules): (path: RelPath) => string {
  return (path) => rotationOf(path)?.kin ?? path;
}
