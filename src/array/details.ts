// What the records of chosen indices say: for a table that fits a screen, one index in detail, a download. Each index
// costs at least one request, so nobody asks for all of them who needs the state alone (survey.ts).
import type { WholeRecord } from '../model/checkpoint/history.ts';
import { parseRecordKey } from '../model/format/keys.ts';
import type { StoredFile } from '../model/format/records.ts';
import { readAhead } from '../model/waiting.ts';
import { listRecords, type RecordListing } from '../records/list.ts';
import { readNewest } from '../records/read.ts';
import type { StoredArray } from './stored-array.ts';
import { type IndexRow, isRecord, type RecordAt } from './survey.ts';

/** Records are small: what takes time is the way to the server. */
export const READS_AT_ONCE = 16;

export interface NewestRecord {
  /** What is stored of the index; undefined if no record says so. Its results are those of its list segments, too. */
  readonly newest: WholeRecord | undefined;
  /** A line for each record that could not be read. */
  readonly problems: readonly string[];
}

/**
 * The newest readable record that tells what is stored of an index: one request, and one for each list segment. If it is
 * damaged, those before it are looked for.
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
  /** Of each attempt the newest readable record, ascending; of one that was only claimed, or is damaged, its claim. */
  readonly attempts: readonly WholeRecord[];
  /** By attempt its newest record, if that cannot be read: its key still says what it is. */
  readonly damaged: ReadonlyMap<number, NamedRecord>;
  /** A line for each record that could not be read. */
  readonly problems: readonly string[];
}

/** What the key of a record says. */
export type NamedRecord = Pick<RecordAt, 'attempt' | 'seq' | 'kind' | 'status'>;

/** All attempts of an index: a request for its listing, and one for each attempt and list segment. */
export async function indexDetails(
  array: StoredArray,
  index: string,
  signal: AbortSignal,
): Promise<IndexDetails> {
  const { store, taskName } = array;
  return detailsIn(array, await listRecords(store, { taskName, index }, signal), signal);
}

/** The same of a listing that is there already. */
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

/** Those of half-written results that are there: no record says that one was deleted. */
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

/** The same by what the survey has seen: without the listing, unless one of these records is damaged, or gone since. */
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
