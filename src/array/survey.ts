// What a listing of their records says of all indices of an array: no record is read. What stays in memory of an index
// is one small row, however many records it has.
import { compareIndices } from '../model/index-set.ts';
import { parseRecordKey, recordPrefix, taskPrefix } from '../model/format/keys.ts';
import { RECORD_KINDS, type RecordKind } from '../model/format/records.ts';
import { forEachAtOnce } from '../model/waiting.ts';
import { roomInHeap, tooMany } from '../native/heap.ts';
import { INDEX } from '../scheduler/identity.ts';
import type { ListedObject, Store } from '../store/contract/store.ts';
import type { StoredArray } from './stored-array.ts';

/** What the key of a record says, and when it was put there by the store's clock. */
export interface RecordAt {
  readonly key: string;
  readonly attempt: number;
  readonly seq: number;
  readonly kind: RecordKind;
  /** Of `failed` only: what capture exited with. */
  readonly status: number | undefined;
  readonly modifiedMs: number | undefined;
}

/** What the listing says of one index. Instants are ms since the epoch, by the store's clock. */
export interface IndexRow {
  readonly index: string;
  /** How many attempts have left a record. */
  readonly attempts: number;
  /** Key of the newest record of each attempt, ascending. */
  readonly newestOfEach: readonly string[];
  /** The newest record of all: of the newest attempt. A list segment is no record. */
  readonly newest: RecordAt;
  /**
   * The newest that tells what is stored; all but the claim of an attempt do. It names what earlier attempts have
   * stored, too. Undefined if there are only claims.
   */
  readonly telling: RecordAt | undefined;
  /** When the newest attempt was claimed; undefined if its claim is gone. */
  readonly claimedMs: number | undefined;
  /** When the newest attempt last wrote anything: its sign of life. */
  readonly seenMs: number | undefined;
  /** When the newest generation was committed. */
  readonly checkpointMs: number | undefined;
}

export interface Survey {
  /** In the order of their indices, numbers first. */
  readonly rows: readonly IndexRow[];
  /** Now by the store's clock, as far as it can be seen: no record is newer. */
  readonly nowMs: number;
}

/** What an index may begin with (scheduler/identity). */
const FIRST_CHARACTERS = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz';
/** Keys of a page of S3: an array that has no more needs one request. */
const ONE_PAGE = 1000;
const LISTINGS_AT_ONCE = 16;
/** What is kept of an index, and of each of its attempts. */
const ROW_BYTES = 450;
const ATTEMPT_BYTES = 130;

/**
 * Lists the records of all indices of the task. If a server gives a listing page by page, a long one is asked for in
 * parts, by the first character of the index, several at once. `nowMs` is the time of day of this machine.
 */
export async function survey(
  { store, taskName }: StoredArray,
  nowMs: number,
  signal: AbortSignal,
): Promise<Survey> {
  const prefix = taskPrefix(taskName);
  const room = new Room(store, taskName);
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

/** The same of one index alone: one listing of its own. */
export async function surveyIndex(
  { store, taskName }: StoredArray,
  index: string,
  nowMs: number,
  signal: AbortSignal,
): Promise<Survey> {
  const listing = store.list(recordPrefix({ taskName, index }), signal);
  const how = { prefix: taskPrefix(taskName), mostKeys: Infinity, room: new Room(store, taskName) };
  return surveyOf((await rowsOf(listing, how)) ?? [], nowMs);
}

function surveyOf(rows: readonly IndexRow[], nowMs: number): Survey {
  return {
    rows: rows.toSorted((a, b) => compareIndices(a.index, b.index)),
    // A record of the future: the clock of this machine is behind that of the store.
    nowMs: rows.reduce((latest, { seenMs }) => Math.max(latest, seenMs ?? 0), nowMs),
  };
}

/** For the rows of one survey. */
class Room {
  readonly #what: string;
  #bytes = roomInHeap();
  #rows = 0;

  constructor({ url }: Store, taskName: string) {
    this.#what = `indices of task ${taskName} in ${url}`;
  }

  /** Throws status 69 if there is none left. */
  take({ attempts }: IndexRow): void {
    this.#bytes -= ROW_BYTES + attempts * ATTEMPT_BYTES;
    if (this.#bytes < 0) throw tooMany(this.#what, this.#rows);
    this.#rows += 1;
  }
}

interface RowsOptions {
  readonly prefix: string;
  readonly mostKeys: number;
  readonly room: Room;
}

/** Undefined if there are more than `mostKeys`. All keys of an index stand together: a listing is in their order. */
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
  for await (const { key, modifiedMs } of listing) {
    keys += 1;
    if (keys > mostKeys) return undefined;
    const [index = '', ...rest] = key.slice(prefix.length).split('/');
    const at = parseRecordKey(key);
    // What is no index capture has not written.
    if (at === undefined || rest.length !== 1 || !INDEX.test(index)) continue;
    if (growing?.index !== index) {
      take(growing);
      growing = new GrowingRow(index);
    }
    growing.add({ ...at, key, modifiedMs });
  }
  take(growing);
  return rows;
}

type Listed = Omit<RecordAt, 'kind'> & { readonly kind: string };

/** Not a list segment. */
export function isRecord<T extends { readonly kind: string }>(
  at: T,
): at is T & { readonly kind: RecordKind } {
  return RECORD_KINDS.some((kind) => kind === at.kind);
}

/** The row of one index while its keys come, oldest first. */
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

  add(at: Listed): void {
    if (!isRecord(at) && at.kind !== 'list') return;
    if (at.attempt !== this.#attempt) {
      this.#attempt = at.attempt;
      this.#attempts += 1;
      this.#claimedMs = undefined;
      this.#seenMs = undefined;
    }
    this.#seenMs = Math.max(this.#seenMs ?? 0, at.modifiedMs ?? 0) || undefined;
    if (!isRecord(at)) return;
    this.#newest = at;
    this.#newestOfEach.set(at.attempt, at.key);
    if (at.seq === 0) this.#claimedMs = at.modifiedMs;
    else this.#telling = at;
    if (at.kind === 'checkpoint') this.#checkpointMs = at.modifiedMs;
  }

  /** None if there were only list segments. */
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
