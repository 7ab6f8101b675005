// When to cut a set of checkpoint files, and what the cut is worth. Pure: closes and times are arguments. A cut is
// never called proven if it lies between two files of one round, or holds a directory that is still being written.
// While the task writes, no close waits for longer than the bound.
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
  type RoundClose,
  type Rounds,
} from './rounds.ts';

export interface CutRules {
  readonly settleMs: number;
  /** `--checkpoint-last` was given: only its match proves that a set is complete. */
  readonly byLast: boolean;
  readonly rotationOf: Rotates;
}

export interface CutState {
  readonly rules: CutRules;
  readonly rounds: Rounds;
  /** Used instead of rounds if all checkpoints are in rotating directories. */
  readonly units: OpenUnits | undefined;
  /** Set if exactly one file is declared or was restored: then each of its closes is a whole set. */
  readonly single: RelPath | undefined;
  readonly lastCloseMs: number;
  /** When the file of the newest close was written, by its mtime; undefined: unknown. */
  readonly lastWrittenMs: number | undefined;
  /** True if the newest close was of a file that matches `--checkpoint-last`. */
  readonly lastMatched: boolean;
  /** The directory of the newest file that matches `--checkpoint-last`, if directories rotate. */
  readonly lastDirectory: string | undefined;
  /** That file was found by a scan, whose order is not that of the closes. */
  readonly lastFound: boolean;
  /** A file that was closed after that one: in the same directory, or before a cut could be taken. */
  readonly afterLast: RelPath | undefined;
  /** The program has said that everything it closed is whole, and it has closed nothing since. */
  readonly said: boolean;
  /** Time of the oldest close that no cut covers; undefined: cuts cover all closes. */
  readonly staleSinceMs: number | undefined;
  /** Time of the newest proven cut. */
  readonly provenCutMs: number;
  /** How the newest cut was proven. */
  readonly coveredBy: Proof | undefined;
}

export interface CutStart {
  /** Exactly named files, or those of the generation that was restored. */
  readonly members: readonly RelPath[];
  /** No other members can appear. */
  readonly complete: boolean;
  /** All checkpoints are declared by one pattern whose last star names a directory. */
  readonly inUnits: boolean;
  /** The task ran before capture watched it, so its position in the round is unknown. */
  readonly startsMidRound: boolean;
  /** The order that an earlier sidecar of this attempt had learned for certain. */
  readonly order?: Order | undefined;
}

export function newCut(rules: CutRules, known: CutStart): CutState {
  const { members, complete, inUnits, startsMidRound, order } = known;
  const units = newUnits(members.flatMap((path) => rules.rotationOf(path)?.unit ?? []));
  return {
    rules,
    rounds: newRounds(members, kinOf(rules), { begun: startsMidRound, order }),
    units: inUnits ? (startsMidRound ? unitsLost(units) : units) : undefined,
    single: complete && members.length === 1 ? members[0] : undefined,
    lastCloseMs: -Infinity,
    lastWrittenMs: undefined,
    lastMatched: false,
    lastDirectory: undefined,
    lastFound: false,
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
  /** The file's mtime, ms since the epoch; undefined: unknown. */
  readonly writtenMs?: number | undefined;
  readonly isLast: boolean;
  /** The number in its name counts checkpoints, not parts of one checkpoint. */
  readonly rotates?: boolean;
}

export function memberClosed(state: CutState, close: MemberClose): CutState {
  const { path, how, atMs, writtenMs, isLast, rotates = false } = close;
  const { rules, rounds, units, lastMatched } = state;
  const rotation = rules.rotationOf(path);
  // A scan finds files in directory order, not in the order of their closes.
  const isFound = how === 'scan' || how === 'dir-rename';
  // So the file may be the last one of the previous round. But a directory that holds its last file is whole.
  const provesNothing = how === 'scan' && units === undefined;
  const isDirectory = rotation?.kind === 'directory' && state.lastDirectory !== undefined;
  const isSameDirectory = isDirectory && rotation.unit === state.lastDirectory;
  // The next directory has begun; the cut leaves it out.
  const isNext = isDirectory && !isSameDirectory && units !== undefined;
  const comesAfter = !isLast && !isFound && !isNext && (lastMatched || isSameDirectory);
  const sinceMs = atMs - state.lastCloseMs;
  const roundRules = { kinOf: kinOf(rules), settleMs: rules.settleMs };
  const pauses = pausesOf(sinceMs, writtenMs, state.lastWrittenMs);
  const roundClose = { path, how, ...pauses, rotates };
  const next = units === undefined ? closedInRound(rounds, roundClose, roundRules) : rounds;
  // The task was suspended in between. The time in which it wrote nothing does not count for the bound.
  const isResumed =
    sinceMs >= BOUND_MS && hasStopped(rounds, sinceMs, rules.settleMs) && next.phase === 'known';
  return {
    ...state,
    rounds: next,
    units: units && rotation !== undefined ? unitsAfter(units, rotation.unit, how, isLast) : units,
    lastCloseMs: atMs,
    lastWrittenMs: writtenMs,
    lastMatched: !provesNothing && (isLast || (lastMatched && (isFound || isNext))),
    lastFound: isLast ? isFound : state.lastFound,
    afterLast: comesAfter && !state.lastFound ? path : state.afterLast,
    lastDirectory: isLast && rotation?.kind === 'directory' ? rotation.unit : state.lastDirectory,
    said: false,
    staleSinceMs: isResumed ? atMs : (state.staleSinceMs ?? atMs),
  };
}

/**
 * The pause before a close, at least and at most: closes that are read together seem to be of one moment, and one that is
 * read late seems to come after a pause.
 */
function pausesOf(
  readMs: number,
  writtenMs: number | undefined,
  lastWrittenMs: number | undefined,
): Pick<RoundClose, 'sinceMs' | 'leastMs'> {
  if (writtenMs === undefined || lastWrittenMs === undefined) return { sinceMs: readMs, leastMs: readMs };
  const apartMs = Math.max(0, writtenMs - lastWrittenMs);
  return { sinceMs: Math.max(readMs, apartMs), leastMs: Math.min(readMs, apartMs) };
}

function unitsAfter(units: OpenUnits, unit: string, how: ClosedHow, isLast: boolean): OpenUnits {
  const next = closedInUnit(units, unit, how);
  return isLast ? unitEnded(next, unit) : next;
}

/** The task's position in its round is unknown from here on. */
export function roundLost(state: CutState): CutState {
  const { rounds, units } = state;
  return { ...state, rounds: orderLost(rounds), units: units && unitsLost(units) };
}

/** After an inotify queue overflow the order of closes is unknown. */
export function closesLost(state: CutState, atMs: number): CutState {
  const { staleSinceMs } = state;
  return {
    ...roundLost(state),
    lastCloseMs: atMs,
    lastWrittenMs: undefined,
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

/** How a set is proven whole. `instant`: it is not, but all its files were closed at one instant. */
export type Proof = 'single' | 'round' | 'unit' | 'named' | 'said' | 'instant';

export type Plan =
  /** Cut all members, except those in the directories of `without`, which are still being written. */
  | { readonly kind: 'cut'; readonly proof: Proof; readonly without: ReadonlySet<string> }
  /** A proven set needs more closes. A cut of an instant is due at `untilMs`; undefined: only after the next close. */
  | { readonly kind: 'wait'; readonly untilMs: number | undefined }
  /** Cuts cover all closes. */
  | { readonly kind: 'covered' };

export interface PlanAt {
  readonly nowMs: number;
  /** The measured time to send a set. */
  readonly sendMs: number;
  /** A proven set was tried just now, but a member was being written. */
  readonly tried: boolean;
}

export function plan(state: CutState, { nowMs, sendMs, tried }: PlanAt): Plan {
  const { units, staleSinceMs, lastCloseMs, rules, rounds, provenCutMs } = state;
  if (staleSinceMs === undefined) return { kind: 'covered' };
  const proof = tried ? undefined : proofOf(state);
  if (proof !== undefined) return { kind: 'cut', proof, without: units?.open ?? new Set() };
  const instant: Plan = { kind: 'cut', proof: 'instant', without: new Set() };
  // An instant set is committed within the bound, but not before the newest proven set is older than the bound.
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

/** The time at which all files probably belong to one round, although nothing proves it; undefined if unknown. */
function bestInstantMs({ rules, rounds, units, lastCloseMs }: CutState): number | undefined {
  if (rules.byLast || units !== undefined || !looksWhole(rounds)) return undefined;
  return rounds.isGrowing ? lastCloseMs + rules.settleMs : lastCloseMs;
}

/** True if a close has waited for longer than the bound, plus some time for pushes in progress. */
export function isOverdue({ staleSinceMs }: CutState, nowMs: number, sendMs: number): boolean {
  return staleSinceMs !== undefined && nowMs > staleSinceMs + boundOf(sendMs) + LATE_MS;
}

/**
 * How the members are proven whole at the end of a task that failed or was stopped. A set in which only some files
 * were closed again is `incomplete`: it mixes two rounds, and the previous set is worth more.
 */
export function worthAtEnd(state: CutState, nowMs: number, sendMs: number): Proof | 'incomplete' {
  const { staleSinceMs, coveredBy, units, rounds, provenCutMs } = state;
  if (staleSinceMs === undefined && coveredBy !== undefined && coveredBy !== 'instant') return coveredBy;
  const proof = units === undefined ? proofOf(state) : units.open.size === 0 ? 'unit' : undefined;
  if (proof !== undefined) return proof;
  const isMixed = units === undefined && (isMidRound(rounds) || isPartial(rounds));
  return !isMixed && nowMs >= provenCutMs + boundOf(sendMs) ? 'instant' : 'incomplete';
}

/** A cut is taken now, whether or not it will hold. Later closes belong to the next cut. */
export function cutTaken(state: CutState, proof: Proof, nowMs: number): CutState {
  const { units, rounds } = state;
  const isOpen = units !== undefined && units.open.size > 0 && (proof === 'unit' || proof === 'named');
  return {
    ...state,
    rounds: cutInRound(rounds),
    units: units && { ...units, sealed: false },
    lastMatched: false,
    said: false,
    // The cut leaves out the directory that has begun.
    staleSinceMs: isOpen ? state.lastCloseMs : undefined,
    provenCutMs: proof === 'instant' ? state.provenCutMs : nowMs,
    coveredBy: proof,
  };
}

/** The cut taken from `before` did not hold: its closes are uncovered again. */
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
