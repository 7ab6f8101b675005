// What earlier attempts have stored: the union of their last records. Pure: src/records reads them, this file
// interprets them together.
import type { CaptureRecord, Generation, StoredFile } from '../format/records.ts';
import { outdatedPaths } from '../one-tree.ts';
import type { PathMap } from '../packed/packed-map.ts';
import type { RelPath } from '../path.ts';

export interface History {
  /** Newest stored result of each path, of the same run id. */
  readonly results: PathMap<StoredFile>;
  /**
   * Results of the same run id that cannot stand beside a newer one, as its path is above or below theirs. They are no
   * longer current, and their objects stay.
   */
  readonly replaced: readonly StoredFile[];
  /** As `results`, for other run ids. Never restored, and never replaced without a message. */
  readonly foreignResults: PathMap<StoredFile>;
  /** How many checkpoint sets of other run ids are recorded. */
  readonly foreignCheckpoints: number;
  /** The highest n of the `.~n~` objects of each path. */
  readonly kept: ReadonlyMap<string, number>;
  /** Partial results of the same run id, ordered by attempt. */
  readonly partials: readonly StoredFile[];
  /** Newest first, of the same run id. */
  readonly generations: readonly Generation[];
  /** {@link generationName} of sets that the newest record of some attempt names, but a later attempt has deleted. */
  readonly dropped: readonly string[];
  /** Of all run ids, ascending. */
  readonly attempts: readonly AttemptEnd[];
}

/** How an earlier attempt ended, as far as its records show. */
export interface AttemptEnd {
  readonly attempt: number;
  readonly kind: CaptureRecord['kind'];
  readonly status: number | undefined;
  readonly sameRun: boolean;
  readonly runId: string | undefined;
  /** The `run` in the metadata of its objects. */
  readonly runToken: string;
  readonly host: string;
  readonly argv: readonly string[];
  /** {@link generationName} of the set that it resumed from; undefined: none, or not recorded. */
  readonly restored?: string | undefined;
}

/** A record together with its list segments. */
export interface WholeRecord {
  readonly record: CaptureRecord;
  /** Entries of list segments, then of the record: a later entry of a path replaces an earlier one. */
  readonly results: Iterable<StoredFile>;
}

/**
 * `records`: the newest readable one of each earlier attempt, ascending. `newMap` makes the map for the results, which
 * may be very many.
 */
export function unionOf(
  records: readonly WholeRecord[],
  runId: string | undefined,
  newMap: () => PathMap<StoredFile> = () => new Map(),
): History {
  const results = newMap();
  const foreignResults = newMap();
  const kept = new Map<string, number>();
  const partials: StoredFile[] = [];
  const generations = new Map<string, Generation>();
  const foreign = new Set<string>();
  for (const { record, results: stored } of afterRemoval(records)) {
    const sameRun = record.runId === runId;
    for (const file of stored) (sameRun ? results : foreignResults).set(file.path, file);
    // A result that the kernel closed for a dying process was moved away, but a list segment may still name it. It had
    // replaced the object of an earlier attempt under its key.
    const moved = new Set(record.partials.map(({ path }) => path));
    const named = new Set<string>();
    if (moved.size > 0) for (const { path } of stored) if (moved.has(path)) named.add(path);
    for (const { path, push } of record.partials) {
      if (results.get(path)?.push === push || !named.has(path)) results.delete(path);
    }
    for (const [path, n] of Object.entries(record.kept)) kept.set(path, Math.max(n, kept.get(path) ?? 0));
    if (sameRun) partials.push(...record.partials);
    // Otherwise keep the earlier sets: an earlier record may be the only one that names a set.
    if (sameRun && record.pruned === true) generations.clear();
    for (const generation of record.generations) {
      // A later record may know that a generation is suspect.
      if (sameRun) generations.set(generationName(generation), generation);
      else foreign.add(generationName(generation));
    }
  }
  const dropped = records
    .flatMap(({ record }) => (record.runId === runId ? (record.dropped ?? []) : []))
    .filter((name) => generations.delete(name));
  return {
    results,
    replaced: takeReplaced(results, records, runId),
    foreignResults,
    foreignCheckpoints: foreign.size,
    kept,
    partials,
    generations: [...generations.values()].toSorted(newestFirst),
    dropped,
    attempts: records.map(({ record }) => ({
      attempt: record.attempt,
      kind: record.kind,
      status: record.end?.status,
      sameRun: record.runId === runId,
      runId: record.runId,
      runToken: record.runToken,
      host: record.host,
      argv: record.argv,
      restored: record.restored,
    })),
  };
}

/** Removes the results that cannot stand beside newer ones. The order of the records tells which are newer. */
function takeReplaced(
  results: PathMap<StoredFile>,
  records: readonly WholeRecord[],
  runId: string | undefined,
): readonly StoredFile[] {
  const replaced: StoredFile[] = [];
  for (const path of outdatedPaths(results, (clashing) => turnsOf(clashing, records, runId))) {
    const file = results.get(path);
    if (file !== undefined) replaced.push(file);
    results.delete(path);
  }
  return replaced;
}

/** When the newest object of each path was first named: the first is 1. */
function turnsOf(
  paths: ReadonlySet<RelPath>,
  records: readonly WholeRecord[],
  runId: string | undefined,
): (path: RelPath) => number {
  const turns = new Map<RelPath, { readonly push: string; readonly turn: number }>();
  let turn = 0;
  for (const { record, results } of records)
    for (const { path, push } of record.runId === runId ? results : []) {
      turn += 1;
      if (paths.has(path) && turns.get(path)?.push !== push) turns.set(path, { push, turn });
    }
  return (path) => turns.get(path)?.turn ?? 0;
}

/** The records from the last one on which says that nothing earlier is stored any more. */
function afterRemoval(records: readonly WholeRecord[]): readonly WholeRecord[] {
  return records.slice(
    Math.max(
      0,
      records.findLastIndex(({ record }) => record.removed === true),
    ),
  );
}

/** `<attempt>-<generation>`, as in keys and CAPTURED_RESTORED. */
export function generationName(generation: { attempt: number; generation: number }): string {
  return `${generation.attempt}-${generation.generation}`;
}

/** The number of the newest generation of an attempt, 0 if it has none. */
export function newestGeneration(generations: readonly Generation[], attempt: number): number {
  return Math.max(
    0,
    ...generations.filter((one) => one.attempt === attempt).map(({ generation }) => generation),
  );
}

/** What a restore found out about a generation. A `good` one passed its check; any other is broken or failed it. */
export interface Judgement {
  /** {@link generationName} */
  readonly generation: string;
  readonly good: boolean;
}

/** The generations as to be recorded now: a good one is no longer suspect, a broken one is. */
export function withJudgements(
  generations: readonly Generation[],
  judgements: readonly Judgement[],
): readonly Generation[] {
  const good = new Map(judgements.map((judgement) => [judgement.generation, judgement.good]));
  return generations.map((generation) => {
    const isGood = good.get(generationName(generation));
    return isGood === undefined ? generation : { ...generation, suspect: isGood ? undefined : true };
  });
}

export function newestFirst(a: Generation, b: Generation): number {
  return b.attempt - a.attempt || b.generation - a.generation;
}
