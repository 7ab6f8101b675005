// What earlier attempts have stored: the union of their last records. Pure: src/records reads them, this file says
// what they mean together.
import type { CaptureRecord, Generation, StoredFile } from '../format/records.ts';
import type { PathMap } from '../packed/packed-map.ts';

export interface History {
  /** Newest stored result of each path, of the same run id. */
  readonly results: PathMap<StoredFile>;
  /** The same of other run ids: never restored, but never replaced without a word either. */
  readonly foreignResults: PathMap<StoredFile>;
  /** How many checkpoint sets of other run ids are recorded. */
  readonly foreignCheckpoints: number;
  /** By path the highest n of its `.~n~` objects. */
  readonly kept: ReadonlyMap<string, number>;
  /** Partial results of the same run id, ordered by attempt. */
  readonly partials: readonly StoredFile[];
  /** Newest first, of the same run id. */
  readonly generations: readonly Generation[];
  /** {@link generationName} of those that a newest record of an attempt names, and that a later attempt has deleted. */
  readonly dropped: readonly string[];
  /** Of any run id, ascending. */
  readonly attempts: readonly AttemptEnd[];
}

/** How an earlier attempt ended, as far as its records say. */
export interface AttemptEnd {
  readonly attempt: number;
  readonly kind: CaptureRecord['kind'];
  readonly status: number | undefined;
  readonly sameRun: boolean;
  readonly runId: string | undefined;
  /** The `run` that its objects carry. */
  readonly runToken: string;
  readonly host: string;
  readonly argv: readonly string[];
  /** {@link generationName} of the one it resumed from; undefined: it resumed from none, or never said. */
  readonly restored?: string | undefined;
}

/** A record whose list segments have been read. */
export interface WholeRecord {
  readonly record: CaptureRecord;
  /** List segments first, then the record's own: a later entry of a path replaces an earlier one. */
  readonly results: Iterable<StoredFile>;
}

/**
 * `records`: the newest readable one of each earlier attempt, in ascending order of attempts. `newMap`: makes the map
 * for the results, as there may be very many.
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
    // A result that turned out to be a death's was moved away; a list segment may still name it. It had replaced what
    // an earlier attempt had stored under its key.
    const moved = new Set(record.partials.map(({ path }) => path));
    const named = new Set<string>();
    if (moved.size > 0) for (const { path } of stored) if (moved.has(path)) named.add(path);
    for (const { path, push } of record.partials) {
      if (results.get(path)?.push === push || !named.has(path)) results.delete(path);
    }
    for (const [path, n] of Object.entries(record.kept)) kept.set(path, Math.max(n, kept.get(path) ?? 0));
    if (sameRun) partials.push(...record.partials);
    // Otherwise an earlier record may be the only one that tells of a set that its attempt committed last.
    if (sameRun && record.pruned === true) generations.clear();
    for (const generation of record.generations) {
      // A later record may know better than an earlier one that a generation is suspect.
      if (sameRun) generations.set(generationName(generation), generation);
      else foreign.add(generationName(generation));
    }
  }
  const dropped = records
    .flatMap(({ record }) => (record.runId === runId ? (record.dropped ?? []) : []))
    .filter((name) => generations.delete(name));
  return {
    results,
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

/** From the last that says that nothing of the earlier ones is stored any more. */
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

/** The number of the newest generation of an attempt, 0 when it has none. */
export function newestOf(generations: readonly Generation[], attempt: number): number {
  return Math.max(
    0,
    ...generations.filter((one) => one.attempt === attempt).map(({ generation }) => generation),
  );
}

/** What a restore found out about a generation: a `good` one passed its check; any other is broken or failed it. */
export interface Judgement {
  /** {@link generationName} */
  readonly generation: string;
  readonly good: boolean;
}

/** The generations as they are to be recorded now: a good one is no longer suspect, a broken one is. */
export function judged(
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
