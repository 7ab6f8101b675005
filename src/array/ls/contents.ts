// What is stored of one index: the listing of its records, and all that these name.
import { generationName, unionOf } from '../../model/checkpoint/history.ts';
import { keptPrefix, parseKept, parseRecordKey, recordPrefix } from '../../model/format/keys.ts';
import type { Generation, StoredFile } from '../../model/format/records.ts';
import { readNewest } from '../../records/read.ts';
import type { ListedObject } from '../../store/contract/store.ts';
import { partialsThere } from '../details.ts';
import type { Place } from '../place.ts';
import type { IndexState, State } from '../state.ts';

export interface Contents {
  readonly index: string;
  readonly task: string;
  readonly state: State;
  /** Of `failed`: what capture exited with. */
  readonly status: number | undefined;
  readonly records: readonly RecordObject[];
  readonly results: readonly StoredFile[];
  /** Of other run ids. */
  readonly otherResults: readonly StoredFile[];
  /** As far as they are still there. */
  readonly partials: readonly StoredFile[];
  /** Older objects of results that came again with other content. */
  readonly older: readonly OlderObject[];
  /** Newest first. */
  readonly checkpoints: readonly (Generation & { readonly name: string })[];
  /** A line for each record that could not be read. */
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

export async function contentsOf(
  place: Place,
  { index, state, row }: IndexState,
  signal: AbortSignal,
): Promise<Contents> {
  const { store, taskName } = place;
  const scope = { taskName, index };
  const records: RecordObject[] = [];
  for await (const object of store.list(recordPrefix(scope), signal))
    if (parseRecordKey(object.key) !== undefined) records.push(recordObject(object));
  const listing = { scope, keys: records.map(({ key }) => key), newestAttempt: row?.newest.attempt ?? 0 };
  const { records: attempts, problems } = await readNewest(store, listing, { signal });
  const history = unionOf(attempts, attempts.at(-1)?.record.runId);
  const older: OlderObject[] = [];
  for (const path of history.kept.keys()) {
    const prefix = keptPrefix(path, scope);
    for await (const { key, sizeBytes } of store.list(prefix, signal))
      if (parseKept(key.slice(prefix.length)) !== undefined) older.push({ path, key, storedSize: sizeBytes });
  }
  return {
    index,
    task: taskName,
    state,
    status: row?.newest.status,
    records,
    results: [...history.results.values()],
    otherResults: [...history.foreignResults.values()],
    partials: await partialsThere(place, history.partials, signal),
    older,
    checkpoints: history.generations.map((one) => ({ name: generationName(one), ...one })),
    problems,
  };
}

function recordObject({ key, sizeBytes, modifiedMs }: ListedObject): RecordObject {
  const writtenAt = modifiedMs === undefined ? undefined : new Date(modifiedMs).toISOString();
  return { key, storedSize: sizeBytes, writtenAt };
}
