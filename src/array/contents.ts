// What is stored of one index according to all its records. For commands that show or check everything.
import { generationName, type History, unionOf } from '../model/checkpoint/history.ts';
import type { Generation, LeftFile, StoredFile } from '../model/format/records.ts';
import type { RecordListing } from '../records/list.ts';
import { readAhead } from '../model/waiting.ts';
import { detailsIn, type IndexDetails, partialsThere, READS_AT_ONCE } from './details.ts';
import { byPath } from './natural-order.ts';
import type { StoredArray } from './stored-array.ts';

export interface Contents extends IndexDetails {
  readonly history: History;
  /**
   * Newest first: the sets of the newest record, and those of earlier records that no later attempt has deleted since.
   */
  readonly generations: readonly Generation[];
  /** Sorted by path, as all file lists here. */
  readonly results: readonly StoredFile[];
  /** Results of other run ids. */
  readonly otherResults: readonly StoredFile[];
  /** Half-written results of killed attempts, as far as they exist: a later attempt may have deleted them. */
  readonly partials: readonly StoredFile[];
  /** Files that are not stored, according to the newest record that says so. */
  readonly left: readonly LeftFile[];
}

/**
 * Costs one request for each attempt, list segment and half-written result, and more for checkpoint files of earlier
 * attempts.
 */
export async function contentsIn(
  array: StoredArray,
  listing: RecordListing,
  signal: AbortSignal,
): Promise<Contents> {
  const details = await detailsIn(array, listing, signal);
  const history = unionOf(details.attempts, details.attempts.at(-1)?.record.runId);
  return {
    ...details,
    history,
    generations: await generationsThere(array, { history, details }, signal),
    results: byPath(history.results.values()),
    otherResults: byPath(history.foreignResults.values()),
    partials: byPath(await partialsThere(array, history.partials, signal)),
    left: byPath(details.attempts.findLast(({ record }) => record.seq > 0)?.record.left ?? []),
  };
}

/** Keeps the sets that still exist: an attempt's records do not change if a later attempt deletes its sets. */
async function generationsThere(
  { store }: StoredArray,
  { history, details }: { readonly history: History; readonly details: IndexDetails },
  signal: AbortSignal,
): Promise<readonly Generation[]> {
  const newest = details.attempts.findLast(({ record }) => record.seq > 0)?.record.generations ?? [];
  const named = new Set(newest.map(generationName));
  const isThere = async (one: Generation): Promise<boolean> => {
    for (const { key } of objectsOf(one)) if ((await store.head(key, signal)) === undefined) return false;
    return true;
  };
  const there: Generation[] = [];
  const looked = readAhead(history.generations, READS_AT_ONCE, async (one) => ({
    one,
    isKept: named.has(generationName(one)) || (await isThere(one)),
  }));
  for await (const { one, isKept } of looked) if (isKept) there.push(one);
  return there;
}

function* objectsOf({ members, companions }: Generation): Generator<{ readonly key: string }> {
  yield* members;
  for (const { segments } of companions) yield* segments;
}
