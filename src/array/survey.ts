// Surveys all indices of an array from a listing of their records. It reads no record. In memory, each index takes one
// small row, however many records it has.
import { compareIndices } from '../model/index-set.ts';
import { parseRecordKey, recordPrefix, taskPrefix } from '../model/format/keys.ts';
import { RECORD_KINDS, type RecordKind } from '../model/format/records.ts';
import { forEachAtOnce } from '../model/waiting.ts';
import { roomInHeap, tooManyForHeap } from '../native/heap.ts';
import { INDEX } from '../scheduler/identity.ts';
import type { ListedObject, Store } from '../store/contract/store.ts';
import type { StoredArray } from './stored-array.ts';

/** What the key of a record says, and when the record was written by the store's clock. */
export interface RecordAt {
  readonly key: string;
  readonly attempt: number;
  readonly seq: number;
  readonly kind: RecordKind;
  /** Only for `failed`: capture's exit status. */
  readonly status: number | undefined;
  readonly modifiedMs: number | undefined;
}

/** What the listing says of one index. Times are ms since the epoch, by the store's clock. */
export interface IndexRow {
  readonly index: string;
  /** How many attempts have a record. */
  readonly attempts: number;
  /** Key of the newest record of each attempt, ascending. */
  readonly newestOfEach: readonly string[];
  /** The newest record of the newest attempt. List segments do not count as records. */
  readonly newest: RecordAt;
  /**
   * The newest record that says what is stored, including the objects of earlier attempts. Every record except an
   * attempt's claim says so. Undefined if there are only claims.
   */
  readonly telling: RecordAt | undefined;
  /** When the newest attempt was claimed; undefined if its claim was deleted. */
  readonly claimedMs: number | undefined;
  /** When the newest attempt last wrote anything: its heartbeat. */
  readonly seenMs: number | undefined;
  /** When the newest generation was committed. */
  readonly checkpointMs: number | undefined;
  /** What the scheduler knows of the job of the newest attempt, if it was asked (slurm-jobs.ts). */
  readonly job?: 'alive' | 'gone';
}

export interface Survey {
  /** Sorted by index, numbers first. */
  readonly rows: readonly IndexRow[];
  /** The current time by the store's clock, as far as it is known: no record is newer. */
  readonly nowMs: number;
  /** Indices that the scheduler still runs, or is going to, if it was asked (slurm-jobs.ts). */
  readonly waiting?: ReadonlySet<string>;
}

/** The characters that an index may start with (scheduler/identity). */
const FIRST_CHARACTERS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';
/** Keys per page of S3: a listing with no more needs one request. */
const ONE_PAGE = 1000;
const LISTINGS_AT_ONCE = 16;
/** Memory for an index, and for each of its attempts. */
const ROW_BYTES = 450;
const ATTEMPT_BYTES = 130;

/**
 * Lists the records of all indices of the task. If the server pages its listings, a long listing is split by the first
 * character of the index, and the parts run concurrently. `nowMs` is this machine's time of day.
 */
export async function survey(
  { store, taskName }: StoredArray,
  nowMs: number,
  signal: AbortSignal,
): Promise<Survey> {
  const prefix = taskPrefix(taskName);
  const room = new MemoryBudget(store, taskName);
  const list = async (part: string, mostKeys: number): Promise<readonly IndexRow[] | undefined> =>
    rowsOf(store.list(part, signal), { prefix, mostKeys, room });
  let rows = await list(prefix, store.listsByPage ? ONE_PAGE : Infinity);
  if (rows === undefined) {
    const parts: IndexRow[][] = [];
    await forEachAtOnce(FIRST_CHARACTERS, LISTINGS_AT_ONCE, async (first) => {
      parts.push([...((await list(prefix + first, Infinity)) ?? [])]);
    });
    rows = parts.flat();
  }
  return surveyOf(rows, nowMs);
}

/** The same for one index, with a listing of its own. */
export async function surveyIndex(
  { store, taskName }: StoredArray,
  index: string,
  nowMs: number,
  signal: AbortSignal,
): Promise<Survey> {
  const listing = store.list(recordPrefix({ taskName, index }), signal);
  const how = { prefix: taskPrefix(taskName), mostKeys: Infinity, room: new MemoryBudget(store, taskName) };
  return surveyOf((await rowsOf(listing, how)) ?? [], nowMs);
}

function surveyOf(rows: readonly IndexRow[], nowMs: number): Survey {
  return {
    rows: rows.toSorted((a, b) => compareIndices(a.index, b.index)),
    // A record in the future means that this machine's clock is behind the store's.
    nowMs: rows.reduce((latest, { seenMs }) => Math.max(latest, seenMs ?? 0), nowMs),
  };
}

/** The memory budget for the rows of one survey. */
class MemoryBudget {
  readonly #what: string;
  #bytes = roomInHeap();
  #rows = 0;

  constructor({ url }: Store, taskName: string) {
    this.#what = `indices of task ${taskName} in ${url}`;
  }

  /** Throws status 69 if the budget is used up. */
  take({ attempts }: IndexRow): void {
    this.#bytes -= ROW_BYTES + attempts * ATTEMPT_BYTES;
    if (this.#bytes < 0) throw tooManyForHeap(this.#what, this.#rows);
    this.#rows += 1;
  }
}

interface RowsOptions {
  readonly prefix: string;
  readonly mostKeys: number;
  readonly room: MemoryBudget;
}

/** Undefined if there are more than `mostKeys`. Listings are sorted by key, so all keys of an index are adjacent. */
async function rowsOf(
  listing: AsyncIterable<ListedObject>,
  { prefix, mostKeys, room }: RowsOptions,
): Promise<readonly IndexRow[] | undefined> {
  const rows: IndexRow[] = [];
  const take = (growing: GrowingRow | undefined): void => {
    for (const row of growing?.row() ?? []) {
      room.take(row);
      rows.push(row);
    }
  };
  let growing: GrowingRow | undefined;
  let keys = 0;
  for await (const { key, modifiedMs, sizeBytes } of listing) {
    keys += 1;
    if (keys > mostKeys) return undefined;
    const [index = '', ...rest] = key.slice(prefix.length).split('/');
    const at = parseRecordKey(key);
    // capture has not written keys without a valid index.
    if (at === undefined || rest.length !== 1 || !INDEX.test(index)) continue;
    if (growing?.index !== index) {
      take(growing);
      growing = new GrowingRow(index);
    }
    growing.add({ ...at, key, modifiedMs }, sizeBytes === 0);
  }
  take(growing);
  return rows;
}

type Listed = Omit<RecordAt, 'kind'> & { readonly kind: string };

/** False for a list segment. */
export function isRecord<T extends { readonly kind: string }>(
  at: T,
): at is T & { readonly kind: RecordKind } {
  return RECORD_KINDS.some((kind) => kind === at.kind);
}

/** Builds the row of one index while its keys arrive, oldest first. */
class GrowingRow {
  readonly index: string;
  #attempt = 0;
  #attempts = 0;
  readonly #newestOfEach = new Map<number, string>();
  #newest: RecordAt | undefined;
  #telling: RecordAt | undefined;
  #claimedMs: number | undefined;
  #seenMs: number | undefined;
  #checkpointMs: number | undefined;

  constructor(index: string) {
    this.index = index;
  }

  /** A record without content shows that its attempt has begun, and nothing else, whatever its key says. */
  add(at: Listed, isEmpty: boolean): void {
    if (!isRecord(at) && at.kind !== 'list') return;
    if (at.attempt !== this.#attempt) {
      this.#attempt = at.attempt;
      this.#attempts += 1;
      this.#claimedMs = undefined;
      this.#seenMs = undefined;
    }
    this.#seenMs = Math.max(this.#seenMs ?? 0, at.modifiedMs ?? 0) || undefined;
    if (!isRecord(at)) return;
    const told: RecordAt = isEmpty ? { ...at, kind: 'started', status: undefined } : at;
    this.#newest = told;
    this.#newestOfEach.set(at.attempt, at.key);
    if (at.seq === 0) this.#claimedMs = at.modifiedMs;
    else this.#telling = told;
    if (told.kind === 'checkpoint') this.#checkpointMs = at.modifiedMs;
  }

  /** Empty if there were only list segments. */
  row(): readonly IndexRow[] {
    if (this.#newest === undefined) return [];
    return [
      {
        index: this.index,
        attempts: this.#attempts,
        newestOfEach: [...this.#newestOfEach.values()],
        newest: this.#newest,
        telling: this.#telling,
        claimedMs: this.#claimedMs,
        seenMs: this.#seenMs,
        checkpointMs: this.#checkpointMs,
      },
    ];
  }
}
