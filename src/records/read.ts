// Reads the records of earlier attempts of this index. It accepts only what model/format/records accepts. If a record
// cannot be read, the user is warned, and the one before it is used.
import pLimit, { type LimitFunction } from 'p-limit';
import { generationName, newestFirst, type WholeRecord } from '../model/checkpoint/history.ts';
import { isSkipped } from '../model/checkpoint/takeovers.ts';
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
import { foreignReason, readRecord, readText, UNREADABLE } from './claim.ts';
import type { RecordListing } from './list.ts';

export interface ReadRecords {
  /** The newest readable record of each attempt, ascending. */
  readonly records: readonly WholeRecord[];
  /** A warning for each record that could not be read: why, and which record is used instead. */
  readonly problems: readonly string[];
  /** Attempts that wrote more than their claim, of which at most the claim can be read. */
  readonly unreadable: readonly number[];
}

/** Most bytes of memory for one value of a record. */
const BYTES_A_VALUE = 40;

function budgetOfIndex(): ValueBudget {
  return { left: Math.floor(roomInHeap() / BYTES_A_VALUE) };
}

/** Concurrent reads of records and list segments: each may have about 300 KiB of text, and waits for a round trip. */
const READ_AT_ONCE = 8;

/** So many records of one process are tried, the newest first. More that are damaged in a row nobody has seen. */
const MOST_TRIED = 20;

export interface ReadOptions {
  /** Only attempts below this one. */
  readonly before?: number;
  readonly signal?: AbortSignal | undefined;
  /** The path table, shared with other maps. */
  readonly paths?: Paths;
}

/**
 * The newest readable record of every attempt. The newest of all says what is stored; the others say how each attempt
 * ended, what it resumed from, and which partial results it left.
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
  const reading: ReadContext = {
    store,
    scope: listing.scope,
    limit: pLimit(READ_AT_ONCE),
    budget: budgetOfIndex(),
    signal,
  };
  const segments = segmentsOf(reading, paths);
  const newest = async (context: ReadContext, attempt: number): Promise<NewestOfAttempt> => {
    const newestFirst = (byAttempt.get(attempt) ?? []).toReversed();
    const { whole, problems } = await newestReadable(context, newestFirst, segments.of);
    const hasToldMore = newestFirst.some((key) => (parseRecordKey(key)?.seq ?? 0) > 0);
    return {
      whole: whole && (await withLateSets(context, whole, newestFirst)),
      problems,
      unreadable: hasToldMore && (whole?.record.seq ?? 0) === 0 ? [attempt] : [],
    };
  };
  const attempts = [...byAttempt.keys()].toSorted((a, b) => a - b);
  let found = await Promise.all(attempts.map((attempt) => newest(reading, attempt)));
  if (reading.budget.isExceeded === true) {
    // The newest say most, so none of them may lack room because of older ones.
    found = [];
    const inOrderOfWorth = { ...reading, budget: budgetOfIndex() };
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    for (const attempt of attempts.toReversed()) found.unshift(await newest(inOrderOfWorth, attempt));
  }
  return {
    records: found.flatMap(({ whole }) => whole ?? []),
    problems: [...found.flatMap(({ problems }) => problems), ...segments.problems],
    unreadable: found.flatMap(({ unreadable }) => unreadable),
  };
}

/**
 * The generations in the records before the newest of each attempt, as far as they exist and can be read. The newest
 * record may have dropped a generation whose objects nobody has deleted, if every process was killed in between. It
 * stops once the budget for kept values is used up.
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

/** Shared by all reads of one listing. */
interface ReadContext {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly limit: LimitFunction;
  readonly budget: ValueBudget;
  readonly signal: AbortSignal | undefined;
}

interface NewestOfAttempt extends NewestFound {
  readonly unreadable: readonly number[];
}

interface NewestFound {
  readonly whole: WholeRecord | undefined;
  /** Messages about what could not be read. */
  readonly problems: readonly string[];
}

async function newestReadable(
  reading: ReadContext,
  newestFirst: readonly string[],
  segmentOf: Segments['of'],
): Promise<NewestFound> {
  const bad: string[] = [];
  const record = await firstWhole(reading, newestFirst, bad);
  // The claim names nothing that was stored.
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
  { store, scope, limit, ...how }: ReadContext,
  newestFirst: readonly string[],
  bad: string[],
): Promise<CaptureRecord | undefined> {
  for (const key of newestFirst.slice(0, MOST_TRIED)) {
    const record = (await limit(() => readRecord(store, scope, key, how))) ?? UNREADABLE;
    if (!('invalid' in record)) return record;
    bad.push(`record ${key} cannot be used (${record.invalid})`);
  }
  return undefined;
}

/**
 * Adds the newest sets of a late record: a record of a dead sidecar may arrive after its replacement has begun, which
 * then does not know these. The replacement knew the older sets, and may have deleted them. It has found the results
 * by itself.
 */
async function withLateSets(
  reading: ReadContext,
  { record, results }: WholeRecord,
  keys: readonly string[],
): Promise<WholeRecord> {
  const { attempt, generations, takeovers = [], dropped = [] } = record;
  const known = new Set([...generations.map(generationName), ...dropped]);
  if (takeovers.length === 0) return { record, results };
  const numbered = keys.map((key) => ({ key, seq: parseRecordKey(key)?.seq ?? 0 }));
  const lateSets = takeovers.map(async (first) => {
    const late = numbered.filter(({ seq }) => isSkipped(seq, first.seq));
    const newest = await firstWhole(
      reading,
      late.map(({ key }) => key),
      [],
    );
    const isUnknown = (one: Generation): boolean =>
      one.attempt === attempt &&
      isSkipped(one.generation, first.generation) &&
      !known.has(generationName(one));
    return (newest?.generations ?? []).filter(isUnknown);
  });
  const all = [...generations, ...(await Promise.all(lateSets)).flat()];
  return { record: { ...record, generations: all.toSorted(newestFirst) }, results };
}

interface Segments {
  /** The entries of a list segment, by its key. */
  of(key: string): Promise<Iterable<StoredFile>>;
  /** Messages about what could not be read so far. */
  readonly problems: readonly string[];
}

/** An attempt reuses the segments of the one before: each is read once for all, and kept packed. */
function segmentsOf({ store, scope, limit, signal }: ReadContext, paths: Paths): Segments {
  const known = new Map<string, Promise<Iterable<StoredFile>>>();
  const problems: string[] = [];
  const codec = storedFileRow(scope.index);
  const ownSegment = (key: string, text: string): ReturnType<typeof parseSegment> => {
    const files = parseSegment(text);
    if ('invalid' in files) return files;
    const foreign = foreignResult(files, { scope, attempt: parseRecordKey(key)?.attempt ?? 0 });
    return foreign === undefined ? files : { invalid: foreignReason(foreign, scope) };
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
