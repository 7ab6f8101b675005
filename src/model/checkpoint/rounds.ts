// Programs write their checkpoint files in rounds. Pure: learns the order of closes from the task's start on, and says
// when a round has ended. A pause proves nothing here; it can only show that a learned order is wrong.
import { type ClosedHow, isInOrder } from '../file/file-state.ts';
import { growingSet, type GrowingSet } from '../growing-set.ts';
import type { RelPath } from '../path.ts';

/**
 * The order is `known` once the task has closed its files three times in that order, from the task's start on. Then a
 * round ends with the last file of the order. The order is `lost` with the first close that does not fit, or that
 * nobody saw. It is known again after the next whole round, but only if it had held for too long to be an accident.
 *
 * Names that are new each time (`ck.7`, `ck.8`) stand for one another, until one of them is written again. They may
 * also be the parts of one checkpoint (`shard.0`, `shard.1`), all of the first round. So they prove rounds only if the
 * user says that the number counts checkpoints, if the program has removed the first of them, or after very many.
 */
export interface Rounds {
  readonly phase: 'learning' | 'known' | 'lost';
  /** While learning: all closes since the task's start. Known: the closes of this round. Lost: the newest closes. */
  readonly log: readonly Step[];
  /** Undefined: not learned yet, or rounds do not always have the same files. */
  readonly order: Order | undefined;
  /** The files that a round must hold: exact names, restored files, and all that were closed. */
  readonly awaited: GrowingSet<string>;
  /** Files closed since the last cut. A file that is closed again right after the cut still counts with that cut. */
  readonly fresh: GrowingSet<string>;
  readonly newest: string | undefined;
  /** The newest close was of a file that no earlier round had: others may follow. */
  readonly isGrowing: boolean;
  /** A file was closed again since the last cut. If all are new, everything that was whole stays whole. */
  readonly isAgain: boolean;
  /** Files that appeared with the rename of their directory, if nothing was closed since. */
  readonly placed: ReadonlySet<string>;
  /** The newest close ended a round. While the order is lost: as far as the order is known. */
  readonly ended: boolean;
  /** Of the names that are new each time: the kins in which one name was written twice. */
  readonly rewritten: ReadonlySet<string>;
  /** Kins of names that are new each time, and whose number counts checkpoints. */
  readonly rotating: ReadonlySet<string>;
  readonly seen: GrowingSet<RelPath>;
}

interface Step {
  readonly path: RelPath;
  /** Identifies the path within a round. */
  readonly id: string;
  /** The time since the close before, at most and at least. */
  readonly sinceMs: number;
  readonly leastMs: number;
}

export interface Order {
  readonly ids: readonly string[];
  /** How many rounds followed this order. */
  readonly times: number;
  /** The longest pause inside the rounds that it was learned from, at least, and the shortest before one of them. */
  readonly insideMs: number;
  readonly betweenMs: number;
}

export interface RoundClose extends Pick<Step, 'path' | 'sinceMs' | 'leastMs'> {
  readonly how: ClosedHow;
  /** The number in its name counts checkpoints. */
  readonly rotates: boolean;
}

export interface RoundRules {
  readonly kinOf: (path: RelPath) => string;
  /** A shorter time is no pause. */
  readonly settleMs: number;
}

/** The search for an order ends after this many closes. */
const LOG_LIMIT = 1000;
/** Rounds needed to learn an order: two alike, and a third that confirms them. */
const ROUNDS_TO_LEARN = 3;
/** An order that held for this many rounds is no accident: it is trusted again after a break. */
const FIRM_AFTER_ROUNDS = 20;
/** If a pause inside a round is longer than one between rounds by this factor, the round may begin elsewhere. */
const CLEARLY_LONGER = 2;
/** On a busy machine, any close may be seen so much later than the one before. */
const UNCLEAR_MS = 50;
/** Two closes of one file that are further apart are two events, on a busy machine too. */
const MERGED_WITHIN_MS = 1000;

/** `known`: exact names or restored files. `begun`: nobody saw the task's start. `order`: learned earlier. */
export function newRounds(
  known: Iterable<RelPath>,
  kinOf: RoundRules['kinOf'],
  { begun = false, order }: { readonly begun?: boolean; readonly order?: Order | undefined } = {},
): Rounds {
  const seen = growingSet(known);
  return {
    phase: begun ? 'lost' : 'learning',
    log: [],
    order,
    awaited: growingSet([...seen].map(kinOf)),
    fresh: growingSet(),
    newest: undefined,
    isGrowing: false,
    isAgain: seen.size > 0,
    placed: new Set(),
    ended: false,
    rewritten: new Set(),
    rotating: new Set(),
    seen,
  };
}

export function closedInRound(rounds: Rounds, close: RoundClose, { kinOf, settleMs }: RoundRules): Rounds {
  const { path, sinceMs, leastMs, how, rotates } = close;
  const named = withName(rounds, path, kinOf);
  const next = rotates ? { ...named, rotating: new Set(named.rotating).add(kinOf(path)) } : named;
  const { phase, order, awaited, newest: id = path } = next;
  if (how === 'dir-rename') return placed(next, id);
  // A file found by a scan can only count as the first one of the order.
  if (!isInOrder(how) && (phase !== 'learning' || next.log.length > 0)) return orderLost(next);
  const step = { path, id, sinceMs, leastMs };
  const log = [...next.log, step];
  if (phase === 'learning') {
    const learned = orderIn(log, settleMs);
    const isTold = learned !== undefined && tellsRounds(learned, log, next.rotating);
    if (isTold && holdsAll(new Set(learned.ids), awaited))
      return { ...next, phase: 'known', order: learned, log: [], ended: !taughtElsewhere(log, learned) };
    return log.length < LOG_LIMIT ? { ...next, log } : orderLost(next);
  }
  if (order === undefined) return orderLost(next);
  const fits = phase === 'known' && order.ids[next.log.length] === id;
  const newest = fits ? log : [...(phase === 'lost' ? next.log : []), step].slice(-order.ids.length);
  // The log is a whole round, or, after a break, the newest closes are.
  const ended = newest.length === order.ids.length && newest.every((one, at) => one.id === order.ids[at]);
  const isBack = fits || (ended && order.times >= FIRM_AFTER_ROUNDS);
  const times = order.times + (ended && isBack ? 1 : 0);
  return {
    ...next,
    phase: isBack ? 'known' : 'lost',
    order: { ...order, times },
    log: ended && isBack ? [] : newest,
    ended: ended && !mayBeginElsewhere(newest, order),
  };
}

/** Nobody knows which file of the order comes next, as after a queue overflow. */
export function orderLost(rounds: Rounds): Rounds {
  return { ...rounds, phase: 'lost', log: [], placed: new Set(), ended: false };
}

/** A cut was taken: later closes belong to the next one. */
export function cutInRound(rounds: Rounds): Rounds {
  return { ...rounds, ended: false, fresh: growingSet(), isAgain: false, placed: new Set() };
}

/** True if the order is known, and the current round lacks a file. */
export function isMidRound({ phase, log }: Rounds): boolean {
  return phase === 'known' && log.length > 0;
}

/** True if some files were closed again since the last cut, and others were not. */
export function isPartial({ fresh, awaited, isAgain }: Rounds): boolean {
  return isAgain && fresh.size > 0 && !holdsAll(fresh, awaited);
}

/**
 * True if the task stopped in the middle of a known round, and closed nothing for `sinceMs`. Never true if the files
 * may alternate, each a checkpoint by itself: then the next file comes as late as the next round.
 */
export function hasStopped(rounds: Rounds, sinceMs: number, settleMs: number): boolean {
  const { insideMs, betweenMs } = rounds.order ?? { insideMs: Infinity, betweenMs: 0 };
  return (
    isMidRound(rounds) && CLEARLY_LONGER * insideMs <= betweenMs && sinceMs > Math.max(settleMs, insideMs)
  );
}

/** True if no order is known, although the task has closed its files often enough to learn one. */
export function isOrderless({ phase, log, awaited }: Rounds): boolean {
  return phase === 'lost' || (phase === 'learning' && log.length > ROUNDS_TO_LEARN * awaited.size);
}

/** The order that the next sidecar of this attempt may trust; undefined if it may be an accident. */
export function firmOrder({ order }: Rounds): Order | undefined {
  return order !== undefined && order.times >= FIRM_AFTER_ROUNDS ? order : undefined;
}

/**
 * True at the best moment to cut a set that nothing proves: after the last file of a lost order, or, if no order was
 * learned, when every file has been closed since the last cut.
 */
export function looksWhole(rounds: Rounds): boolean {
  const { phase, order, ended, fresh } = rounds;
  return phase !== 'known' && (order === undefined ? fresh.size > 0 && !isPartial(rounds) : ended);
}

/** Records the name. If it contradicts what was known, the learned order is dropped for good. */
function withName(rounds: Rounds, path: RelPath, kinOf: RoundRules['kinOf']): Rounds {
  const kin = kinOf(path);
  const isRewritten = kin !== path && rounds.seen.has(path) && !rounds.rewritten.has(kin);
  const named = isRewritten ? renamed(rounds, kin, kinOf) : rounds;
  const { awaited, fresh, newest, order, seen } = named;
  const id = named.rewritten.has(kin) ? path : kin;
  const isGrowing = !awaited.has(id);
  const isKnown = order === undefined || order.ids.includes(id);
  return {
    ...(isKnown ? named : { ...orderLost(named), order: undefined }),
    seen: seen.with(path),
    ended: false,
    awaited: awaited.with(id),
    isGrowing,
    isAgain: named.isAgain || (!isGrowing && !fresh.has(id)),
    fresh: id === newest && awaited.size > 1 ? fresh : fresh.with(id),
    newest: id,
  };
}

/** A name of this kin was written again: from now on each name stands for itself. */
function renamed(rounds: Rounds, kin: string, kinOf: RoundRules['kinOf']): Rounds {
  const isOfKin = (path: RelPath): boolean => kinOf(path) === kin;
  const names = [...rounds.seen].filter(isOfKin);
  return {
    ...rounds,
    log: rounds.log.map((step) => (isOfKin(step.path) ? { ...step, id: step.path } : step)),
    rewritten: new Set(rounds.rewritten).add(kin),
    awaited: growingSet([...[...rounds.awaited].filter((id) => id !== kin), ...names]),
    fresh: growingSet(),
  };
}

/** If all files of a set are in one directory, renaming it brings all of them. */
function placed(rounds: Rounds, id: string): Rounds {
  const before = rounds.placed.has(id) ? [] : rounds.placed;
  const now = new Set([...before, id]);
  const directories = new Set([...rounds.awaited].map((one) => one.slice(0, one.lastIndexOf('/') + 1)));
  const isWhole = directories.size === 1 && !directories.has('') && holdsAll(now, rounds.awaited);
  const over: Rounds = isWhole ? { ...rounds, phase: 'known', order: undefined, log: [] } : orderLost(rounds);
  return { ...over, ended: isWhole, placed: now };
}

/** The order if the closes are three or more whole rounds of it; undefined if they may be something else. */
function orderIn(log: readonly Step[], settleMs: number): Order | undefined {
  const ids = log.map(({ id }) => id);
  // The period: after this many closes the sequence repeats from its beginning.
  const size = ids.findIndex((_, by) => by > 0 && ids.every((id, at) => at < by || id === ids[at - by]));
  if (size < 1 || ids.length < ROUNDS_TO_LEARN * size || ids.length % size !== 0) return undefined;
  const order = ids.slice(0, size);
  // If the first file occurs twice in a round, the round may begin at the second place.
  const isPlain = order.lastIndexOf(order[0] ?? '') < order.filter((id) => id === order[0]).length;
  if (!isPlain) return undefined;
  const [before, newest] = [log.slice(-2 * size, -size), log.slice(-size)];
  const inside = [before, newest].flatMap(([, ...others]) => others);
  const betweenMs = Math.min(...[before, newest].map(([first]) => first?.sinceMs ?? 0));
  // One file closed several times, or several numbered files, may be the first of more that are still to come.
  const isFirm = ids.length >= FIRM_AFTER_ROUNDS && log.every(({ path }) => path === order[0]);
  const isElsewhere = inside.some(({ sinceMs }) => sinceMs > CLEARLY_LONGER * betweenMs);
  const mayBeElse = size === 1 ? betweenMs < settleMs && !isFirm : isElsewhere;
  return mayBeElse
    ? undefined
    : { ids: order, times: ids.length / size, insideMs: longestOf(inside), betweenMs };
}

/**
 * The kernel reports two closes of one file as one if nobody has read the first (inotify(7)). So where rounds follow one
 * another quickly, the end of one may hide the beginning of another that begins with the same file. True if a pause
 * inside this round is longer than those of the rounds that taught the order.
 */
function mayBeginElsewhere([, ...others]: readonly Step[], { insideMs, betweenMs }: Order): boolean {
  const longestMs = CLEARLY_LONGER * Math.max(Math.min(insideMs, betweenMs), UNCLEAR_MS);
  return betweenMs < MERGED_WITHIN_MS && others.some(({ sinceMs }) => sinceMs > longestMs);
}

/** The same for the round with which an order becomes known: the one before it shows how long its pauses are. */
function taughtElsewhere(log: readonly Step[], order: Order): boolean {
  const size = order.ids.length;
  const [, ...before] = log.slice(-2 * size, -size);
  return mayBeginElsewhere(log.slice(-size), { ...order, insideMs: longestOf(before) });
}

function longestOf(steps: readonly Step[]): number {
  return Math.max(0, ...steps.map(({ leastMs }) => leastMs));
}

/** False if all closes may be one round of numbered parts. */
function tellsRounds({ ids, times }: Order, log: readonly Step[], rotating: ReadonlySet<string>): boolean {
  const isSame = (id: string): boolean => log.some((step) => step.id === id && step.path === id);
  return times >= FIRM_AFTER_ROUNDS || ids.every((id) => rotating.has(id) || isSame(id));
}

function holdsAll(some: { has(id: string): boolean }, all: Iterable<string>): boolean {
  return [...all].every((id) => some.has(id));
}
