// Reads what earlier attempts of this index have recorded. It believes only what model/format/records accepts. If a
// record cannot be read, the user is told, and the one before it is used.
import pLimit, { type LimitFunction } from 'p-limit';
import type { WholeRecord } from '../model/checkpoint/history.ts';
import type { ValueBudget } from '../model/format/foreign-json.ts';
import { type KeyScope, parseRecordKey } from '../model/format/keys.ts';
import { foreignResult } from '../model/format/own-keys.ts';
import {
  type CaptureRecord,
  type Generation,
  parseSegment,
  type StoredFile,
} from '../model/format/records.ts';
import { Paths, rowList } from '../model/packed/packed-map.ts';
import { storedFileRow } from '../model/packed/stored-file-row.ts';
import { roomInHeap } from '../native/heap.ts';
import type { Store } from '../store/contract/store.ts';
import { notOwn, readRecord, readText, UNREADABLE } from './claim.ts';
import type { RecordListing } from './list.ts';

export interface ReadRecords {
  /** Of each attempt the newest readable record, ascending. */
  readonly records: readonly WholeRecord[];
  /** A warning for each record that could not be read: why, and what is used instead. */
  readonly problems: readonly string[];
  /** Attempts that wrote more than their claim, of which at most the claim can be read. */
  readonly unreadable: readonly number[];
}

/** What one value of a record takes at most, as it is kept. */
const BYTES_A_VALUE = 40;

function budgetOfIndex(): ValueBudget {
  return { left: Math.floor(roomInHeap() / BYTES_A_VALUE) };
}

/** Records and list segments read at once: each may have some 300 KiB of text, and each waits for its round trip. */
const READ_AT_ONCE = 8;

export interface ReadOptions {
  /** Only attempts below this one. */
  readonly before?: number;
  readonly signal?: AbortSignal | undefined;
  /** The paths that the results share with others. */
  readonly paths?: Paths;
}

/**
 * The newest readable record of every attempt: the newest of all says what is stored, those before it how each attempt
 * ended, what it resumed from, and what its death left.
 */
export async function readNewest(
  store: Store,
  listing: RecordListing,
  { before = Infinity, signal, paths = new Paths() }: ReadOptions = {},
): Promise<ReadRecords> {
  const byAttempt = new Map<number, string[]>();
  for (const key of listing.keys) {
    const at = parseRecordKey(key);
    if (at === undefined || at.kind === 'list' || at.attempt >= before) continue;
    const keys = byAttempt.get(at.attempt);
    if (keys === undefined) byAttempt.set(at.attempt, [key]);
    else keys.push(key);
  }
  const reading: Reading = {
    store,
    scope: listing.scope,
    limit: pLimit(READ_AT_ONCE),
    budget: budgetOfIndex(),
    signal,
  };
  const segments = segmentsOf(reading, paths);
  const found = await Promise.all(
    [...byAttempt]
      .toSorted(([a], [b]) => a - b)
      .map(async ([attempt, oldestFirst]) => {
        const newestFirst = oldestFirst.toReversed();
        const { whole, problems } = await newestReadable(reading, newestFirst, segments.of);
        const hasToldMore = newestFirst.some((key) => (parseRecordKey(key)?.seq ?? 0) > 0);
        return {
          whole,
          problems,
          unreadable: hasToldMore && (whole?.record.seq ?? 0) === 0 ? [attempt] : [],
        };
      }),
  );
  return {
    records: found.flatMap(({ whole }) => whole ?? []),
    problems: [...found.flatMap(({ problems }) => problems), ...segments.problems],
    unreadable: found.flatMap(({ unreadable }) => unreadable),
  };
}

/**
 * The generations in the records before the newest of each attempt, as far as those records are there and can be read.
 * The newest record may have dropped a generation whose objects nobody has deleted, if all was killed in between. No more
 * are read than may be kept.
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
  const budget = budgetOfIndex();
  const records = await pLimit(READ_AT_ONCE).map(keys, (key) =>
    readRecord(store, listing.scope, key, { signal, budget }),
  );
  return records.flatMap((record) => (record === undefined || 'invalid' in record ? [] : record.generations));
}

/** What all reading of one listing shares. */
interface Reading {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly limit: LimitFunction;
  readonly budget: ValueBudget;
  readonly signal: AbortSignal | undefined;
}

interface NewestFound {
  readonly whole: WholeRecord | undefined;
  /** What could not be read, in words. */
  readonly problems: readonly string[];
}

async function newestReadable(
  reading: Reading,
  newestFirst: readonly string[],
  segmentOf: Segments['of'],
): Promise<NewestFound> {
  const bad: string[] = [];
  const record = await firstWhole(reading, newestFirst, bad);
  // The claim tells of nothing that was stored.
  const instead =
    record === undefined || record.seq === 0
      ? 'its attempt has no other that tells what it stored'
      : 'the one before it is used';
  const problems = bad.map((problem) => `${problem}: ${instead}`);
  if (record === undefined) return { whole: undefined, problems };
  const lists = await Promise.all(record.segments.map(segmentOf));
  return { whole: { record, results: inOrder([...lists, record.results]) }, problems };
}

async function firstWhole(
  { store, scope, limit, ...how }: Reading,
  newestFirst: readonly string[],
  bad: string[],
): Promise<CaptureRecord | undefined> {
  for (const key of newestFirst) {
    const record = (await limit(() => readRecord(store, scope, key, how))) ?? UNREADABLE;
    if (!('invalid' in record)) return record;
    bad.push(`record ${key} cannot be used (${record.invalid})`);
  }
  return undefined;
}

interface Segments {
  /** The entries of a list segment, by its key. */
  of(key: string): Promise<Iterable<StoredFile>>;
  /** What could not be read so far, in words. */
  readonly problems: readonly string[];
}

/** An attempt goes on with the segments of the one before: each is read once for all, and kept packed. */
function segmentsOf({ store, scope, limit, signal }: Reading, paths: Paths): Segments {
  const known = new Map<string, Promise<Iterable<StoredFile>>>();
  const problems: string[] = [];
  const codec = storedFileRow(scope.index);
  const ownSegment = (key: string, text: string): ReturnType<typeof parseSegment> => {
    const files = parseSegment(text);
    if ('invalid' in files) return files;
    const foreign = foreignResult(files, { scope, attempt: parseRecordKey(key)?.attempt ?? 0 });
    return foreign === undefined ? files : { invalid: notOwn(foreign, scope) };
  };
  const read = async (key: string): Promise<Iterable<StoredFile>> => {
    const text = await readText(store, key, signal);
    const segment = text === undefined || text === null ? UNREADABLE : ownSegment(key, text);
    if (!('invalid' in segment)) return rowList(segment, codec, paths);
    problems.push(
      `list ${key} cannot be used (${segment.invalid}): its results are pushed again when they come`,
    );
    return [];
  };
  return {
    problems,
    of: (key) => {
      const reading = known.get(key) ?? limit(() => read(key));
      known.set(key, reading);
      return reading;
    },
  };
}

function inOrder(lists: readonly Iterable<StoredFile>[]): Iterable<StoredFile> {
  return {
    *[Symbol.iterator]() {
      for (const list of lists) yield* list;
    },
  };
}
