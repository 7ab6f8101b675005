// When is a set of checkpoint files to be cut, and what is the cut worth? Pure: is told of closes and of the time.
// It never calls a cut proven between two files of one round, or with a directory that is still being written; and
// while the task writes, what was closed never waits for longer than the bound.
import type { ClosedHow } from '../file/events.ts';
import type { RelPath } from '../path.ts';
import { BOUND_MS, boundOf, instantDueMs, isLate } from './bound.ts';
import { closedInUnit, newUnits, type OpenUnits, unitsLost, unitsSaid } from './open-units.ts';
import { hasStopped, newPace, type Pace, paced } from './pace.ts';
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
  /** Instead of rounds, where all checkpoints are in directories that rotate. */
  readonly units: OpenUnits | undefined;
  /** Exactly one file is declared, or was restored: each of its closes is a whole set. */
  readonly single: RelPath | undefined;
  readonly lastCloseMs: number;
  readonly pace: Pace;
  /** The newest close was of a file that matches `--checkpoint-last`. */
  readonly lastMatched: boolean;
  /** The directory of that file, if directories rotate. */
  readonly lastDirectory: string | undefined;
  /** What was closed after that file: in its own directory, or before a cut could be taken. */
  readonly afterLast: RelPath | undefined;
  /** The program itself has said that all that it has closed is whole, and has closed nothing since. */
  readonly said: boolean;
  /** When the oldest close came that no cut covers; undefined: all is covered. */
  readonly staleSinceMs: number | undefined;
  /** When the oldest close came since a set was proven, or since what was not closed is waited for no longer. */
  readonly unprovenSinceMs: number | undefined;
  /** When a proven set was cut last. */
  readonly provenCutMs: number;
  /** What the newest cut was worth. */
  readonly coveredBy: Proof | undefined;
}

export interface Known {
  /** Exactly named files, or those of the generation that was restored. */
  readonly members: readonly RelPath[];
  /** They are all that there will be. */
  readonly complete: boolean;
  /** All checkpoints are declared by one pattern whose star names a directory. */
  readonly inUnits: boolean;
  /** The task has run before: nobody saw where its round began. */
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
  // What a walk finds comes in the order of the directory.
  const isFound = how === 'scan' || how === 'dir-rename';
  const isSameDirectory = rotation?.kind === 'directory' && rotation.unit === state.lastDirectory;
  const comesAfter = !isLast && !isFound && (lastMatched || isSameDirectory);
  const sinceMs = atMs - state.lastCloseMs;
  const unit = rotation?.unit;
  const next =
    units === undefined ? closedInRound(rounds, path, sinceMs >= rules.settleMs, kinOf(rules)) : rounds;
  const pace = paced(state.pace, sinceMs, next);
  // It was suspended, and has written nothing for which the bound could count.
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

/** After a queue overflow the order of closes is lost. */
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

/** How it is known that a set is whole; `instant`: it is not, but all its files were closed at one instant. */
export type Proof = 'single' | 'round' | 'unit' | 'named' | 'said' | 'rest' | 'instant';

export type Plan =
  /** A cut of all members, but for those in the directories of `without`: they are still being written. */
  | { readonly kind: 'cut'; readonly proof: Proof; readonly without: ReadonlySet<string> }
  /** Nothing more has to be closed for a proven set: only time has to pass. */
  | { readonly kind: 'rest'; readonly untilMs: number }
  /** A proven set needs more closes; at the latest then there is one of an instant, if not only after the next close. */
  | { readonly kind: 'wait'; readonly untilMs: number | undefined }
  /** All that was closed is covered. */
  | { readonly kind: 'covered' };

export interface PlanAt {
  readonly nowMs: number;
  /** What sending a set was measured to take. */
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

/** True when a pause, or the program's word, is all that a proven set still needs. */
function restProves({ rules, rounds, units }: CutState): boolean {
  return !rules.byLast && units === undefined && mayRest(rounds);
}

/** What was closed waits for longer than the bound; with some time for what is on its way. */
export function isOverdue({ staleSinceMs }: CutState, nowMs: number, sendMs: number): boolean {
  return staleSinceMs !== undefined && isLate(staleSinceMs, nowMs, sendMs);
}

type Worth = 'proven' | 'instant' | 'incomplete';

/**
 * What all members are worth as they stand at the end of a task that failed or was stopped. In the middle of a round
 * they are known to be of two, and a proven set that is younger than the bound is worth more than any instant.
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
    // The directory that has begun is not in it.
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
