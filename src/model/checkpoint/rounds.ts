// Programs write their checkpoint files in rounds. Pure: learns from the order of closes what a round is, and says
// when one has ended. It must never say so between two files of one round.
import { growingSet, type GrowingSet } from '../growing-set.ts';
import type { RelPath } from '../path.ts';

/**
 * A round is everything that is closed until a file is closed again and every other one has been closed, too. What
 * was learned this way is believed once the next round has ended like it. If the members are known beforehand
 * (exactly named, or restored), the first time that all of them have been closed teaches the round at once.
 *
 * Names that are new each time (`ck.7`, `ck.8`) stand for one another in a round, until one of them is written again.
 */
export interface Rounds {
  /**
   * The paths that are closed in a round, as far as anybody knows; a round is not over before each of them was
   * closed.
   */
  readonly awaited: ReadonlySet<string>;
  /** `awaited` was known beforehand, and no round has been learned yet. */
  readonly taught: boolean;
  /** Closes since the beginning of a round, while no round is known; undefined: nobody knows where one begins. */
  readonly log: readonly RelPath[] | undefined;
  readonly counts: ReadonlyMap<string, number>;
  /** How often each is closed in a round. */
  readonly pattern: ReadonlyMap<string, number> | undefined;
  /** A second round has ended like the first. */
  readonly confirmed: boolean;
  /** The newest close has ended a round. */
  readonly ended: boolean;
  /** Closes were lost, and a pause stands for the beginning of a round until two in a row were alike. */
  readonly guessed: boolean;
  /** Of names that are new each time: a name of this kin was written twice. */
  readonly rewritten: ReadonlySet<string>;
  readonly seen: GrowingSet<RelPath>;
  /** What was closed since the bound passed last. */
  readonly heard: ReadonlySet<string>;
}

/** A round has fewer closes than this. */
const LOG_LIMIT = 1000;

export type KinOf = (path: RelPath) => string;

/** `known`: exactly named or restored; `complete` if they are all that will ever be in a round. */
export function newRounds(known: Iterable<RelPath>, complete: boolean, kinOf: KinOf): Rounds {
  const seen = growingSet(known);
  const awaited = new Set([...seen].map(kinOf));
  const empty = { counts: new Map(), pattern: undefined, confirmed: false, ended: false };
  return {
    ...empty,
    awaited,
    taught: complete && seen.size > 0,
    guessed: false,
    log: [],
    rewritten: new Set(),
    seen,
    heard: new Set(),
  };
}

/** `afterPause`: nothing was closed for some time before. */
export function closedInRound(rounds: Rounds, path: RelPath, afterPause: boolean, kinOf: KinOf): Rounds {
  const heard = new Set(rounds.heard).add(idOf(rounds, path, kinOf));
  const next = { ...rounds, seen: rounds.seen.with(path), heard, ended: false };
  const kin = kinOf(path);
  // A name that comes again: from now on each name of its kin stands for itself, also in what is known already.
  if (kin !== path && rounds.seen.has(path) && !rounds.rewritten.has(kin)) {
    const rewritten = new Set(rounds.rewritten).add(kin);
    const names = [...next.seen].filter((other) => kinOf(other) === kin);
    const renamed = (ids: ReadonlySet<string>): ReadonlySet<string> =>
      new Set([...[...ids].filter((id) => id !== kin), ...names]);
    const known = { rewritten, awaited: renamed(rounds.awaited), heard: renamed(heard) };
    return fold({ ...next, ...known }, [...(rounds.log ?? []), path], kinOf);
  }
  // A file that no known round has, between two rounds: nobody can say to which of them it belongs.
  const id = idOf(next, path, kinOf);
  const isBetween = rounds.confirmed && rounds.counts.size === 0;
  if (isBetween && rounds.pattern?.has(id) === false)
    return orderLost({ ...next, awaited: new Set(rounds.awaited).add(id) });
  if (rounds.log === undefined) return afterPause ? fold(next, [path], kinOf) : next;
  if (rounds.guessed && afterPause) return step(pauseSeen(next, kinOf), path, kinOf);
  return rounds.log.length >= LOG_LIMIT ? orderLost(next) : step(next, path, kinOf);
}

/** Nobody knows any more where a round begins, as after a queue overflow: the next one begins after a pause. */
export function orderLost(rounds: Rounds): Rounds {
  return { ...rounds, ...FRESH, taught: false, guessed: true, log: undefined };
}

const FRESH = { counts: new Map<string, number>(), pattern: undefined, confirmed: false, ended: false };

/**
 * The bound has passed, and no round has ended: files that were not closed in all that time are no longer waited for,
 * and what was learned with them is forgotten, unless a second round has confirmed it.
 */
export function boundPassed(rounds: Rounds, kinOf: KinOf): Rounds {
  const { confirmed, heard, log, guessed } = rounds;
  if (confirmed) return rounds;
  const next = { ...rounds, awaited: new Set<string>(), taught: false, heard: new Set<string>() };
  if (log === undefined || guessed) return { ...next, awaited: heard };
  const since = log.filter((path) => heard.has(idOf(rounds, path, kinOf)));
  return { ...fold(next, since, kinOf), ended: false };
}

/** True if a pause proves that a round is over: nobody knows of anything that is still to come in it. */
export function mayRest(rounds: Rounds): boolean {
  const { log, pattern, counts, awaited, guessed } = rounds;
  if (log === undefined || guessed) return false;
  if (pattern === undefined) return [...awaited].every((id) => counts.has(id));
  return counts.size === 0 || timesOf(counts, pattern) !== undefined;
}

/** True while rounds are known, and one has begun and lacks a file. */
export function isMidRound({ confirmed, counts }: Rounds): boolean {
  return confirmed && counts.size > 0;
}

/** A pause has shown what a round is; the next one shows whether it is always so. */
export function restTaken(rounds: Rounds): Rounds {
  if (rounds.pattern !== undefined || rounds.log === undefined) return rounds;
  return { ...rounds, pattern: rounds.counts, taught: false };
}

/**
 * If pauses separate rounds: what came before this pause is a round if it had every file, and was like the one before
 * it.
 */
function pauseSeen(rounds: Rounds, kinOf: KinOf): Rounds {
  const { counts, pattern, awaited } = rounds;
  if (pattern === undefined && [...awaited].every((id) => counts.has(id)))
    return { ...rounds, pattern: counts };
  return pattern !== undefined && timesOf(counts, pattern) !== undefined ? rounds : fold(rounds, [], kinOf);
}

function fold(rounds: Rounds, log: readonly RelPath[], kinOf: KinOf): Rounds {
  const begun: Rounds = { ...rounds, ...FRESH, log: [] };
  return log.reduce((before, path) => step(before, path, kinOf), begun);
}

function step(rounds: Rounds, path: RelPath, kinOf: KinOf): Rounds {
  const { counts: before, pattern, awaited } = rounds;
  const id = idOf(rounds, path, kinOf);
  const counts = new Map(before).set(id, (before.get(id) ?? 0) + 1);
  const next = {
    ...rounds,
    log: [...(rounds.log ?? []), path],
    counts,
    awaited: new Set(awaited).add(id),
    ended: false,
  };
  if (pattern === undefined) {
    if (rounds.taught)
      return [...awaited].every((other) => counts.has(other)) ? roundEnded(next, counts, kinOf) : next;
    const isOver = before.has(id) && [...awaited].every((other) => before.has(other));
    return isOver ? { ...next, pattern: before } : next;
  }
  const isBroken = !pattern.has(id) || isAhead(counts, pattern, id);
  if (isBroken) return { ...next, pattern: undefined, confirmed: false };
  return timesOf(counts, pattern) === undefined ? next : roundEnded(next, pattern, kinOf);
}

/** What was closed up to here is no longer needed, unless names may still turn out not to be new each time. */
function roundEnded(rounds: Rounds, pattern: ReadonlyMap<string, number>, kinOf: KinOf): Rounds {
  const log = rounds.log ?? [];
  const isCertain = log.every((path) => idOf(rounds, path, kinOf) === path) || log.length > LOG_LIMIT / 2;
  const known = { pattern, counts: new Map<string, number>(), confirmed: true, ended: true, taught: false };
  return { ...rounds, ...known, guessed: false, log: isCertain ? [] : log };
}

/** How many rounds the counts are, if each file stands at the end of the same one. */
function timesOf(
  counts: ReadonlyMap<string, number>,
  pattern: ReadonlyMap<string, number>,
): number | undefined {
  const times = [...pattern].map(([id, closes]) => (counts.get(id) ?? 0) / closes);
  const first = times[0] ?? 0;
  return first >= 1 && Number.isInteger(first) && times.every((n) => n === first) ? first : undefined;
}

/** It was closed in the next round although another file has not ended this one. */
function isAhead(
  counts: ReadonlyMap<string, number>,
  pattern: ReadonlyMap<string, number>,
  id: string,
): boolean {
  const over = Math.min(
    ...[...pattern].map(([other, closes]) => Math.floor((counts.get(other) ?? 0) / closes)),
  );
  return (counts.get(id) ?? 0) > (over + 1) * (pattern.get(id) ?? 0);
}

function idOf({ rewritten }: Rounds, path: RelPath, kinOf: KinOf): string {
  const kin = kinOf(path);
  return rewritten.has(kin) ? path : kin;
}
