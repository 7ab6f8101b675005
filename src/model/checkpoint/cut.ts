// When is a set of checkpoint files cut, and what is the cut worth? Pure: it is told of closes and of the time. Never
// calls a cut proven if it lies between two files of one round, or holds a directory that is still being written.
// While the task writes, what was closed never waits for longer than the bound.
import type { ClosedHow } from '../file/file-state.ts';
import type { RelPath } from '../path.ts';
import {
  BOUND_MS,
  boundOf,
  closedInUnit,
  EARLY_MS,
  LATE_MS,
  newUnits,
  type OpenUnits,
  unitEnded,
  unitsLost,
  unitsSaid,
} from './pace.ts';
import type { Rotates } from './rotation.ts';
import {
  closedInRound,
  cutInRound,
  hasStopped,
  isMidRound,
  isPartial,
  looksWhole,
  newRounds,
  type Order,
  orderLost,
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
  /** What an earlier sidecar of this attempt had learned for certain. */
  readonly order?: Order | undefined;
}

export function newCut(rules: CutRules, known: Known): CutState {
  const { members, complete, inUnits, inMidst, order } = known;
  const units = newUnits(members.flatMap((path) => rules.rotationOf(path)?.unit ?? []));
  return {
    rules,
    rounds: newRounds(members, kinOf(rules), { begun: inMidst, order }),
    units: inUnits ? (inMidst ? unitsLost(units) : units) : undefined,
    single: complete && members.length === 1 ? members[0] : undefined,
    lastCloseMs: -Infinity,
    lastMatched: false,
    lastDirectory: undefined,
    afterLast: undefined,
    said: false,
    staleSinceMs: undefined,
    provenCutMs: -Infinity,
    coveredBy: undefined,
  };
}

export interface MemberClose {
  readonly path: RelPath;
  readonly how: ClosedHow;
  readonly atMs: number;
  readonly isLast: boolean;
  /** Its number counts checkpoints: it is no part of one. */
  readonly rotates?: boolean;
}

export function memberClosed(state: CutState, close: MemberClose): CutState {
  const { path, how, atMs, isLast, rotates = false } = close;
  const { rules, rounds, units, lastMatched } = state;
  const rotation = rules.rotationOf(path);
  // A walk finds files in the order of the directory, not in that of their closes.
  const isFound = how === 'scan' || how === 'dir-rename';
  // So it may be the last one of the round before; but a directory that holds its last file is whole.
  const provesNothing = how === 'scan' && units === undefined;
  const isDirectory = rotation?.kind === 'directory' && state.lastDirectory !== undefined;
  const isSameDirectory = isDirectory && rotation.unit === state.lastDirectory;
  // The next directory has begun, and the cut leaves it out.
  const isNext = isDirectory && !isSameDirectory && units !== undefined;
  const comesAfter = !isLast && !isFound && !isNext && (lastMatched || isSameDirectory);
  const sinceMs = atMs - state.lastCloseMs;
  const roundRules = { kinOf: kinOf(rules), settleMs: rules.settleMs };
  const next =
    units === undefined ? closedInRound(rounds, { path, how, sinceMs, rotates }, roundRules) : rounds;
  // The task was suspended meanwhile, and has written nothing that the bound could count for.
  const isResumed =
    sinceMs >= BOUND_MS && hasStopped(rounds, sinceMs, rules.settleMs) && next.phase === 'known';
  return {
    ...state,
    rounds: next,
    units: units && rotation !== undefined ? unitsAfter(units, rotation.unit, how, isLast) : units,
    lastCloseMs: atMs,
    lastMatched: !provesNothing && (isLast || (lastMatched && (isFound || isNext))),
    afterLast: comesAfter ? path : state.afterLast,
    lastDirectory: isLast && rotation?.kind === 'directory' ? rotation.unit : state.lastDirectory,
    said: false,
    staleSinceMs: isResumed ? atMs : (state.staleSinceMs ?? atMs),
  };
}

function unitsAfter(units: OpenUnits, unit: string, how: ClosedHow, isLast: boolean): OpenUnits {
  const next = closedInUnit(units, unit, how);
  return isLast ? unitEnded(next, unit) : next;
}

/** Nobody knows where in its round the task is. */
export function roundLost(state: CutState): CutState {
  const { rounds, units } = state;
  return { ...state, rounds: orderLost(rounds), units: units && unitsLost(units) };
}

/** After a queue overflow the order of closes is unknown. */
export function closesLost(state: CutState, atMs: number): CutState {
  const { staleSinceMs } = state;
  return {
    ...roundLost(state),
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
export type Proof = 'single' | 'round' | 'unit' | 'named' | 'said' | 'instant';

export type Plan =
  /** A cut of all members, except those in the directories of `without`: these are still being written. */
  | { readonly kind: 'cut'; readonly proof: Proof; readonly without: ReadonlySet<string> }
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
  const { units, staleSinceMs, lastCloseMs, rules, rounds, provenCutMs } = state;
  if (staleSinceMs === undefined) return { kind: 'covered' };
  const proof = tried ? undefined : proofOf(state);
  if (proof !== undefined) return { kind: 'cut', proof, without: units?.open ?? new Set() };
  const instant: Plan = { kind: 'cut', proof: 'instant', without: new Set() };
  // Committed by the bound, and not before the newest proven set is older than that.
  const leadMs = boundOf(sendMs) - sendMs;
  const dueMs = Math.max(staleSinceMs - EARLY_MS, provenCutMs) + leadMs;
  if (nowMs >= dueMs)
    return hasStopped(rounds, nowMs - lastCloseMs, rules.settleMs)
      ? { kind: 'wait', untilMs: undefined }
      : instant;
  const bestMs = (tried ? undefined : bestInstantMs(state)) ?? Infinity;
  const fromMs = Math.min(dueMs, Math.max(bestMs, provenCutMs + leadMs));
  return nowMs >= fromMs ? instant : { kind: 'wait', untilMs: fromMs };
}

function proofOf(state: CutState): Proof | undefined {
  const { rules, rounds, units, single, lastMatched, said } = state;
  if (rules.byLast) return lastMatched ? 'named' : undefined;
  if (units !== undefined) return units.sealed ? (said ? 'said' : 'unit') : undefined;
  if (single !== undefined && rounds.seen.size === 1) return 'single';
  if (rounds.phase === 'known' && rounds.ended) return 'round';
  return said && !isMidRound(rounds) && !isPartial(rounds) ? 'said' : undefined;
}

/** When all files are probably of one round although nothing proves it; undefined: nobody can say when. */
function bestInstantMs({ rules, rounds, units, lastCloseMs }: CutState): number | undefined {
  if (rules.byLast || units !== undefined || !looksWhole(rounds)) return undefined;
  return rounds.isGrowing ? lastCloseMs + rules.settleMs : lastCloseMs;
}

/** True if what was closed has waited for longer than the bound, with some time for what is on its way. */
export function isOverdue({ staleSinceMs }: CutState, nowMs: number, sendMs: number): boolean {
  return staleSinceMs !== undefined && nowMs > staleSinceMs + boundOf(sendMs) + LATE_MS;
}

/**
 * How we know that all members are whole as they are at the end of a task that failed or was stopped. A set of which
 * only some files were closed anew is `incomplete`: it is of two rounds, and the one before it is worth more.
 */
export function worthAtEnd(state: CutState, nowMs: number, sendMs: number): Proof | 'incomplete' {
  const { staleSinceMs, coveredBy, units, rounds, provenCutMs } = state;
  if (staleSinceMs === undefined && coveredBy !== undefined && coveredBy !== 'instant') return coveredBy;
  const proof = units === undefined ? proofOf(state) : units.open.size === 0 ? 'unit' : undefined;
  if (proof !== undefined) return proof;
  const isMixed = units === undefined && (isMidRound(rounds) || isPartial(rounds));
  return !isMixed && nowMs >= provenCutMs + boundOf(sendMs) ? 'instant' : 'incomplete';
}

/** A cut was taken now, whether or not it will hold: what is closed from here on belongs to the next. */
export function cutTaken(state: CutState, proof: Proof, nowMs: number): CutState {
  const { units, rounds } = state;
  const isOpen = units !== undefined && units.open.size > 0 && (proof === 'unit' || proof === 'named');
  return {
    ...state,
    rounds: cutInRound(rounds),
    units: units && { ...units, sealed: false },
    lastMatched: false,
    said: false,
    // The cut does not hold the directory that has begun.
    staleSinceMs: isOpen ? state.lastCloseMs : undefined,
    provenCutMs: proof === 'instant' ? state.provenCutMs : nowMs,
    coveredBy: proof,
  };
}

/** The cut that was taken of `before` did not hold: what it covered is not covered. */
export function cutGivenUp(state: CutState, before: CutState): CutState {
  const { staleSinceMs } = state;
  if (staleSinceMs === undefined) return { ...before, said: before.said || state.said };
  return {
    ...state,
    staleSinceMs: Math.min(before.staleSinceMs ?? Infinity, staleSinceMs),
    provenCutMs: before.provenCutMs,
    coveredBy: before.coveredBy,
  };
}

function kinOf({ rotationOf }: CutRules): (path: RelPath) => string {
  return (path) => rotationOf(path)?.kin ?? path;
}
