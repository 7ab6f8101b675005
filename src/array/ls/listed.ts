// What is stored of one index: the listing of its records, and everything that they name.
import type { State } from '../../model/format/json-output.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import { keptPrefix, parseKept, parseRecordKey, recordPrefix } from '../../model/format/keys.ts';
import type { Generation, StoredFile } from '../../model/format/records.ts';
import { fittingInHeap } from '../../native/heap.ts';
import type { ListedObject } from '../../store/contract/store.ts';
import { contentsIn } from '../contents.ts';
import { byPath } from '../natural-order.ts';
import type { StoredArray } from '../stored-array.ts';
import type { IndexState } from '../state.ts';

export interface Listed {
  readonly index: string;
  readonly task: string;
  readonly state: State;
  /** For `failed`: capture's exit status. */
  readonly status: number | undefined;
  /** Its newest record cannot be read; the fields below come from earlier records. */
  readonly isDamaged: boolean;
  readonly records: readonly RecordObject[];
  readonly results: readonly StoredFile[];
  /** Results of other run ids. */
  readonly otherResults: readonly StoredFile[];
  /** Half-written results that still exist. */
  readonly partials: readonly StoredFile[];
  /** Older objects of results that were stored again with other content, or whose name became a directory. */
  readonly older: readonly OlderObject[];
  /** Newest first. */
  readonly checkpoints: readonly (Generation & { readonly name: string })[];
  /** One line for each record that could not be read. */
  readonly problems: readonly string[];
}

export interface RecordObject {
  readonly key: string;
  readonly storedSize: number;
  readonly writtenAt: string | undefined;
}

export interface OlderObject {
  readonly path: string;
  readonly key: string;
  readonly storedSize: number;
}

/** Memory for an object. */
const LISTED_BYTES = 300;

export async function listedOf(
  array: StoredArray,
  { index, state, row }: IndexState,
  signal: AbortSignal,
): Promise<Listed> {
  const { store, taskName } = array;
  const scope = { taskName, index };
  const records: RecordObject[] = [];
  const listed = store.list(recordPrefix(scope), signal);
  for await (const object of fittingInHeap(listed, LISTED_BYTES, `records of index ${index}`))
    if (parseRecordKey(object.key) !== undefined) records.push(recordObject(object));
  const listing = { scope, keys: records.map(({ key }) => key), newestAttempt: row?.newest.attempt ?? 0 };
  const { history, generations, results, otherResults, partials, damaged, problems } = await contentsIn(
    array,
    listing,
    signal,
  );
  const older: OlderObject[] = history.replaced.map(({ path, key, size, storedSize = size }) => ({
    path,
    key,
    storedSize,
  }));
  for (const path of history.kept.keys()) {
    const prefix = keptPrefix(path, scope);
    for await (const { key, sizeBytes } of fittingInHeap(store.list(prefix, signal), LISTED_BYTES, path))
      if (parseKept(key.slice(prefix.length)) !== undefined) older.push({ path, key, storedSize: sizeBytes });
  }
  return {
    index,
    task: taskName,
    state,
    status: row?.newest.status,
    isDamaged: damaged.has(listing.newestAttempt),
    records,
    results,
    otherResults,
    partials,
    older: byPath(older),
    checkpoints: generations.map((one) => ({ name: generationName(one), ...one })),
    problems,
  };
}

function recordObject({ key, sizeBytes, modifiedMs }: ListedObject): RecordObject {
  const writtenAt = modifiedMs === undefined ? undefined : new Date(modifiedMs).toISOString();
  return { key, storedSize: sizeBytes, writtenAt };
}
