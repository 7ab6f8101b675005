// Reads what earlier attempts of this index have recorded. It believes only what model/format/records accepts. If a
// record cannot be read, the user is told, and the one before it is used.
import pLimit from 'p-limit';
import type { WholeRecord } from '../model/checkpoint/history.ts';
import { type KeyScope, parseRecordKey, recordKey, recordPrefix } from '../model/format/keys.ts';
import {
  type CaptureRecord,
  type Generation,
  parseRecord,
  parseSegment,
  RECORD_LIMIT_BYTES,
  type StoredFile,
} from '../model/format/records.ts';
import { Paths, rowList } from '../model/packed/packed-map.ts';
import { storedFileRow } from '../model/packed/stored-files.ts';
import { formatBytes } from '../model/units.ts';
import type { Store } from '../store/contract/store.ts';

export interface RecordListing {
  readonly scope: KeyScope;
  /** Keys of all records of the index, ascending: time order. */
  readonly keys: readonly string[];
  /** 0 when there is none. */
  readonly newestAttempt: number;
}

export async function listRecords(
  store: Store,
  scope: KeyScope,
  signal?: AbortSignal,
): Promise<RecordListing> {
  const keys: string[] = [];
  let newestAttempt = 0;
  for await (const { key } of store.list(recordPrefix(scope), signal)) {
    const at = parseRecordKey(key);
    if (at === undefined) continue;
    keys.push(key);
    newestAttempt = Math.max(newestAttempt, at.attempt);
  }
  return { scope, keys, newestAttempt };
}

const UNREADABLE = { invalid: `it is gone, or larger than ${formatBytes(RECORD_LIMIT_BYTES)}` } as const;

export interface ReadRecords {
  /** Of each attempt the newest readable record, ascending. */
  readonly records: readonly WholeRecord[];
  /** A warning for each record that could not be read: why, and what is used instead. */
  readonly problems: readonly string[];
  /** Attempts that wrote more than their claim, of which at most the claim can be read. */
  readonly unreadable: readonly number[];
}

/** Records and list segments read at once: each may have some 300 KiB of text. */
const READ_AT_ONCE = 4;

export interface ReadOptions {
  /** Only attempts below this one. */
  readonly before?: number;
  readonly signal?: AbortSignal | undefined;
  /** The paths that the results share with others. */
  readonly paths?: Paths;
}

/** The newest readable record of every attempt. */
export async function readNewest(
  store: Store,
  listing: RecordListing,
  { before = Infinity, signal, paths = new Paths() }: ReadOptions = {},
): Promise<ReadRecords> {
  const byAttempt = new Map<number, string[]>();
  for (const key of listing.keys) {
    const at = parseRecordKey(key);
    if (at === undefined || at.kind === 'list' || at.attempt >= before) continue;
    byAttempt.set(at.attempt, [key, ...(byAttempt.get(at.attempt) ?? [])]);
  }
  const problems: string[] = [];
  const records: WholeRecord[] = [];
  const reading: Reading = { store, problems, signal };
  const segmentOf = segmentsOf(reading, listing, paths);
  const unreadable: number[] = [];
  for (const [attempt, newestFirst] of [...byAttempt].toSorted(([a], [b]) => a - b)) {
    const whole = await newestReadable(reading, newestFirst, segmentOf);
    if (whole !== undefined) records.push(whole);
    const hasToldMore = newestFirst.some((key) => (parseRecordKey(key)?.seq ?? 0) > 0);
    if (hasToldMore && (whole?.record.seq ?? 0) === 0) unreadable.push(attempt);
  }
  return { records, problems, unreadable };
}

/**
 * The generations in the records before the newest of each attempt, as far as those records are there and can be read.
 * The newest record may have dropped a generation whose objects nobody has deleted, if all was killed in between.
 */
export async function readDropped(
  store: Store,
  listing: RecordListing,
  { before = Infinity, signal }: Omit<ReadOptions, 'paths'> = {},
): Promise<readonly Generation[]> {
  const keys = listing.keys.filter((key) => {
    const at = parseRecordKey(key);
    return at !== undefined && at.kind !== 'list' && at.seq > 0 && at.attempt < before;
  });
  const records = await pLimit(READ_AT_ONCE).map(keys, (key) => readRecord(store, key, signal));
  return records.flatMap((record) => (record === undefined || 'invalid' in record ? [] : record.generations));
}

/** What all reading of one listing shares. */
interface Reading {
  readonly store: Store;
  /** What could not be read, in words; grows. */
  readonly problems: string[];
  readonly signal: AbortSignal | undefined;
}

async function newestReadable(
  reading: Reading,
  newestFirst: readonly string[],
  segmentOf: SegmentOf,
): Promise<WholeRecord | undefined> {
  const bad: string[] = [];
  const whole = await firstWhole(reading, newestFirst, bad);
  // The claim tells of nothing that was stored.
  const instead =
    whole === undefined || whole.seq === 0
      ? 'its attempt has no other that tells what it stored'
      : 'the one before it is used';
  reading.problems.push(...bad.map((problem) => `${problem}: ${instead}`));
  if (whole === undefined) return undefined;
  const lists = await Promise.all(whole.segments.map(segmentOf));
  return { record: whole, results: inOrder([...lists, whole.results]) };
}

async function firstWhole(
  { store, signal }: Reading,
  newestFirst: readonly string[],
  bad: string[],
): Promise<CaptureRecord | undefined> {
  for (const key of newestFirst) {
    const record = (await readRecord(store, key, signal)) ?? UNREADABLE;
    if (!('invalid' in record)) return record;
    bad.push(`record ${key} cannot be used (${record.invalid})`);
  }
  return undefined;
}

/**
 * The record that `key` stands for, or why there is none: another record may stand there, or nothing of ours.
 * Undefined when nothing stands there at all.
 */
async function readRecord(
  store: Store,
  key: string,
  signal?: AbortSignal,
): Promise<CaptureRecord | { readonly invalid: string } | undefined> {
  const text = await readText(store, key, signal);
  if (text === undefined) return undefined;
  const record = text === null ? UNREADABLE : parseRecord(text);
  if ('invalid' in record || keyOf(record) === key) return record;
  return { invalid: `it is the record ${keyOf(record)}` };
}

/** What stands where an attempt is claimed: its claim, nothing, or what is no record of ours. */
export type ClaimFound = CaptureRecord | 'gone' | 'damaged';

export async function readClaim(
  store: Store,
  scope: KeyScope,
  attempt: number,
  signal?: AbortSignal,
): Promise<ClaimFound> {
  const record = await readRecord(store, recordKey(scope, attempt, 0, 'started'), signal);
  if (record === undefined) return 'gone';
  return 'invalid' in record ? 'damaged' : record;
}

export function isClaim(found: ClaimFound): found is CaptureRecord {
  return typeof found === 'object';
}

function keyOf({ task, index, attempt, seq, kind, end }: CaptureRecord): string {
  const name = kind === 'failed' ? `failed-${end?.status ?? 1}` : kind;
  return recordKey({ taskName: task, index }, attempt, seq, name);
}

/** The entries of a list segment, by its key. */
type SegmentOf = (key: string) => Promise<Iterable<StoredFile>>;

/** An attempt goes on with the segments of the one before: each is read once for all, and kept packed. */
function segmentsOf({ store, problems, signal }: Reading, { scope }: RecordListing, paths: Paths): SegmentOf {
  const known = new Map<string, Promise<Iterable<StoredFile>>>();
  const limit = pLimit(READ_AT_ONCE);
  const codec = storedFileRow(scope.index);
  const read = async (key: string): Promise<Iterable<StoredFile>> => {
    const text = await readText(store, key, signal);
    const segment = text === undefined || text === null ? UNREADABLE : parseSegment(text);
    if (!('invalid' in segment)) return rowList(segment, codec, paths);
    problems.push(
      `list ${key} cannot be used (${segment.invalid}): its results are pushed again when they come`,
    );
    return [];
  };
  return (key) => {
    const reading = known.get(key) ?? limit(() => read(key));
    known.set(key, reading);
    return reading;
  };
}

function inOrder(lists: readonly Iterable<StoredFile>[]): Iterable<StoredFile> {
  return {
    *[Symbol.iterator]() {
      for (const list of lists) yield* list;
    },
  };
}

/** A small object as text, null when it is too large to be a record; undefined when there is none. */
export async function readText(
  store: Store,
  key: string,
  signal?: AbortSignal,
): Promise<string | null | undefined> {
  const got = await store.get(key, { signal });
  if (got === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of got.body) {
    total += chunk.length;
    if (total > RECORD_LIMIT_BYTES) return null; // a huge one is not read to its end
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
