// Reads what earlier attempts of this index have recorded. Believes nothing that core/records does not
// accept; an unreadable record is reported and the one before it is taken.
import {
  RECORD_LIMIT_BYTES,
  parseRecord,
  parseSegment,
  type CaptureRecord,
  type StoredFile,
} from '../core/records.ts';
import { parseRecordKey, recordPrefix, type KeyScope } from '../core/keys.ts';
import type { WholeRecord } from '../core/history.ts';
import { formatBytes } from '../core/units.ts';
import type { Store } from '../store/store.ts';

export interface RecordListing {
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
  return { keys, newestAttempt };
}

const UNREADABLE = { invalid: `it is gone, or larger than ${formatBytes(RECORD_LIMIT_BYTES)}` } as const;

export interface ReadRecords {
  /** Of each attempt the newest readable record, ascending. */
  readonly records: readonly WholeRecord[];
  /** What could not be read, for a warning each. */
  readonly problems: readonly string[];
}

/** The newest readable record of every attempt below `before`. */
export async function readNewest(
  store: Store,
  listing: RecordListing,
  before: number,
  signal?: AbortSignal,
): Promise<ReadRecords> {
  const byAttempt = new Map<number, string[]>();
  for (const key of listing.keys) {
    const at = parseRecordKey(key);
    if (at === undefined || at.kind === 'list' || at.attempt >= before) continue;
    byAttempt.set(at.attempt, [key, ...(byAttempt.get(at.attempt) ?? [])]);
  }
  const problems: string[] = [];
  const records: WholeRecord[] = [];
  for (const attempt of [...byAttempt.keys()].toSorted((a, b) => a - b)) {
    const whole = await newestReadable(store, byAttempt.get(attempt) ?? [], problems, signal);
    if (whole !== undefined) records.push(whole);
  }
  return { records, problems };
}

async function newestReadable(
  store: Store,
  newestFirst: readonly string[],
  problems: string[],
  signal?: AbortSignal,
): Promise<WholeRecord | undefined> {
  for (const key of newestFirst) {
    const text = await readText(store, key, signal);
    const record = text === undefined ? UNREADABLE : parseRecord(text);
    if ('invalid' in record) {
      problems.push(`record ${key} cannot be used (${record.invalid})`);
      continue;
    }
    const results = await readSegments(store, record, problems, signal);
    return { record, results: [...results, ...record.results] };
  }
  return undefined;
}

async function readSegments(
  store: Store,
  record: CaptureRecord,
  problems: string[],
  signal?: AbortSignal,
): Promise<readonly StoredFile[]> {
  const lists = await Promise.all(
    record.segments.map(async (key) => {
      const text = await readText(store, key, signal);
      const segment = text === undefined ? UNREADABLE : parseSegment(text);
      if (!('invalid' in segment)) return segment;
      problems.push(
        `list ${key} cannot be used (${segment.invalid}): its results are pushed again when they come`,
      );
      return [];
    }),
  );
  return lists.flat();
}

/** A small object as text; undefined when there is none or it is too large to be a record. */
export async function readText(store: Store, key: string, signal?: AbortSignal): Promise<string | undefined> {
  const got = await store.get(key, { signal });
  if (got === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of got.body) {
    total += chunk.length;
    if (total > RECORD_LIMIT_BYTES) return undefined; // a huge one is not read to its end
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
