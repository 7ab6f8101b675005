// Reads the records of chosen indices, for a table that fits a screen, one index in detail, or a download. Each index
// costs at least one request, so code that needs only the states uses survey.ts.
import type { WholeRecord } from '../model/checkpoint/history.ts';
import { parseRecordKey } from '../model/format/keys.ts';
import type { StoredFile } from '../model/format/records.ts';
import { readAhead } from '../model/waiting.ts';
import { listRecords, type RecordListing } from '../records/list.ts';
import { readNewest } from '../records/read.ts';
import type { StoredArray } from './stored-array.ts';
import { type IndexRow, isRecord, type RecordAt } from './survey.ts';

/** Records are small, so the latency of the server dominates. */
export const READS_AT_ONCE = 16;

export interface NewestRecord {
  /** What is stored of the index, with the results in its list segments. Undefined if no record says so. */
  readonly newest: WholeRecord | undefined;
  /** One line for each record that could not be read. */
  readonly problems: readonly string[];
}

/**
 * The newest readable record that says what is stored of an index. Costs one request, and one for each list segment. If
 * the record is damaged, the ones before it are tried.
 */
export async function newestRecord(
  { store, taskName }: StoredArray,
  { index, telling }: IndexRow,
  signal: AbortSignal,
): Promise<NewestRecord> {
  if (telling === undefined) return { newest: undefined, problems: [] };
  const scope = { taskName, index };
  const listing = { scope, keys: [telling.key], newestAttempt: telling.attempt };
  const { records, problems } = await readNewest(store, listing, { signal });
  const [newest] = records;
  if (newest !== undefined) return { newest, problems };
  const all = await readNewest(store, await listRecords(store, scope, signal), { signal });
  return { newest: all.records.findLast(({ record }) => record.seq > 0), problems: all.problems };
}

export interface IndexDetails {
  /**
   * The newest readable record of each attempt, ascending. For an attempt that was only claimed, or is damaged, its
   * claim.
   */
  readonly attempts: readonly WholeRecord[];
  /** The newest record of an attempt, by attempt, if it cannot be read. Its key still says what it is. */
  readonly damaged: ReadonlyMap<number, NamedRecord>;
  /** One line for each record that could not be read. */
  readonly problems: readonly string[];
}

/** What the key of a record says. */
export type NamedRecord = Pick<RecordAt, 'attempt' | 'seq' | 'kind' | 'status'>;

/** All attempts of an index. Costs one request for the listing, and one for each attempt and list segment. */
export async function indexDetails(
  array: StoredArray,
  index: string,
  signal: AbortSignal,
): Promise<IndexDetails> {
  const { store, taskName } = array;
  return detailsIn(array, await listRecords(store, { taskName, index }, signal), signal);
}

/** The same, from an existing listing. */
export async function detailsIn(
  { store }: StoredArray,
  listing: RecordListing,
  signal: AbortSignal,
): Promise<IndexDetails> {
  const { records, problems } = await readNewest(store, listing, { signal });
  return { attempts: records, damaged: damagedIn(listing, records), problems };
}

function damagedIn(
  { keys }: RecordListing,
  records: readonly WholeRecord[],
): ReadonlyMap<number, NamedRecord> {
  const newest = new Map<number, NamedRecord>();
  for (const key of keys) {
    const at = parseRecordKey(key);
    if (at !== undefined && isRecord(at)) newest.set(at.attempt, at);
  }
  for (const { record } of records)
    if (record.seq >= (newest.get(record.attempt)?.seq ?? 0)) newest.delete(record.attempt);
  return newest;
}

/** The half-written results that exist. No record says that one was deleted. */
export async function partialsThere(
  { store }: StoredArray,
  named: readonly StoredFile[],
  signal: AbortSignal,
): Promise<readonly StoredFile[]> {
  const there: StoredFile[] = [];
  const looked = readAhead(named, READS_AT_ONCE, async (file) => ({
    file,
    head: await store.head(file.key, signal),
  }));
  for await (const { file, head } of looked) if (head !== undefined) there.push(file);
  return there;
}

/** The same, from the survey. It needs no listing, unless one of these records is damaged or was deleted since. */
export async function detailsOf(
  array: StoredArray,
  row: IndexRow,
  signal: AbortSignal,
): Promise<IndexDetails> {
  const { index, attempts, newestOfEach: keys, newest } = row;
  const listing = { scope: { taskName: array.taskName, index }, keys, newestAttempt: newest.attempt };
  const details = await detailsIn(array, listing, signal);
  return details.attempts.length === attempts ? details : indexDetails(array, index, signal);
}
