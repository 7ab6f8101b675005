// Which records of an index exist. Some servers show an object in a listing only after a while, some gateways never.
// Missing records would count as never stored: so a listing must show the claim that is known to exist.
import { setTimeout as sleep } from 'node:timers/promises';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { type KeyScope, parseRecordKey, recordKey, recordPrefix } from '../model/format/keys.ts';
import { RECORD_KINDS } from '../model/format/records.ts';
import { type BackOff, pauseAfter } from '../model/waiting.ts';
import type { Store } from '../store/contract/store.ts';

/** The most records of an index: one every few seconds for months is a tenth of it. */
const MOST_RECORDS = 1_000_000;
/** No healthy store lags this long, ms. */
const WAIT_MS = 30_000;
const BACK_OFF: BackOff = { firstMs: 250, mostMs: 4000 };

export interface RecordListing {
  readonly scope: KeyScope;
  /** Keys of all records of the index, ascending: time order. */
  readonly keys: readonly string[];
  /** 0 if there is none. */
  readonly newestAttempt: number;
}

export async function listRecords(
  store: Store,
  scope: KeyScope,
  signal?: AbortSignal,
): Promise<RecordListing> {
  const keys: string[] = [];
  let newestAttempt = 0;
  let listed = 0;
  for await (const { key } of store.list(recordPrefix(scope), signal)) {
    listed += 1;
    if (listed > MOST_RECORDS) throw tooMany(store, scope);
    const at = parseRecordKey(key);
    if (at === undefined) continue;
    keys.push(key);
    newestAttempt = Math.max(newestAttempt, at.attempt);
  }
  return { scope, keys, newestAttempt };
}

/** The number of the attempt's newest record; 0 if it has only its claim. */
export function newestSeq({ keys }: RecordListing, attempt: number): number {
  let newest = 0;
  for (const at of keys.map(parseRecordKey)) if (at?.attempt === attempt) newest = Math.max(newest, at.seq);
  return newest;
}

interface StaleOptions {
  readonly signal?: AbortSignal;
  readonly waitMs?: number;
}

/**
 * The records of an index, once the listing shows the claim of `attempt`, which is known to exist. Throws status 69 if
 * it does not within 30 s.
 */
export async function listWithClaim(
  store: Store,
  scope: KeyScope,
  attempt: number,
  { signal, waitMs = WAIT_MS }: StaleOptions = {},
): Promise<RecordListing> {
  const key = recordKey(scope, attempt, 0, 'started');
  const endMs = performance.now() + waitMs;
  let wasStale = false;
  for (let looks = 0; ; looks += 1) {
    const listing = await listRecords(store, scope, signal);
    const isShown = listing.keys.includes(key);
    if (isShown && !(wasStale && (await hidesMore(store, listing, signal)))) return listing;
    wasStale = true;
    const leftMs = endMs - performance.now();
    if (leftMs <= 0) throw staleError(store, isShown ? `all of attempt ${attempt}` : key, waitMs);
    await sleep(Math.min(pauseAfter(BACK_OFF, looks), leftMs), undefined, { signal });
  }
}

/** For a listing that lagged: is there a record after the newest one listed? It is requested by key. */
async function hidesMore(
  store: Store,
  { scope, keys }: RecordListing,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const newest = parseRecordKey(keys.at(-1) ?? '');
  if (newest === undefined) return false;
  const names = [...RECORD_KINDS, 'list'].map((kind) =>
    recordKey(scope, newest.attempt, newest.seq + 1, kind),
  );
  const heads = await Promise.all(names.map((name) => store.head(name, signal)));
  return heads.some((head) => head !== undefined);
}

function tooMany({ url }: Store, { taskName, index }: KeyScope): CaptureError {
  return new CaptureError(
    EXIT.unavailable,
    `${url} lists more than ${MOST_RECORDS} names of task ${taskName}, index ${index}`,
    {
      hint: 'no run writes so many: somebody else has, or the server lists without end. --task-name takes another place',
    },
  );
}

function staleError({ url }: Store, what: string, waitMs: number): CaptureError {
  return new CaptureError(
    EXIT.unavailable,
    `${waitMs / 1000} s later the listing of ${url} still does not show ${what}, though it is stored`,
    {
      hint: 'check what stands between here and the store (gateway, cache): what earlier attempts stored is not seen',
    },
  );
}
