// The claim of an index: the first record of an attempt. Takes the next number, and later checks that it is still the
// newest. That check comes before everything that cannot be undone: a commit, a deletion (also of a local file), a
// push that replaces something, the last record. So deleting from the store is here, too.
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { ValueBudget } from '../model/format/foreign-json.ts';
import { type KeyScope, recordKey } from '../model/format/keys.ts';
import { foreignKeyIn } from '../model/format/own-keys.ts';
import { type CaptureRecord, parseRecord, RECORD_LIMIT_BYTES } from '../model/format/records.ts';
import { formatBytes } from '../model/units.ts';
import { reached } from '../native/failpoint.ts';
import { ABSENT, type Store, StoreError } from '../store/contract/store.ts';
import { listRecords, listWithClaim, type RecordListing } from './list.ts';

/** More losses in a row than machines could start at once. */
const MOST_TRIES = 100;
/** How long an answer stays valid, ms. */
const FRESH_MS = 5000;

/** Reasons why a record is refused. */
export const UNREADABLE = {
  invalid: `it is gone, or larger than ${formatBytes(RECORD_LIMIT_BYTES)}`,
} as const;

interface ClaimOptions {
  readonly store: Store;
  readonly scope: KeyScope;
  /** The records of the index. It may be slightly out of date: a claim whose number is taken lists again. */
  readonly listing: RecordListing;
  /** The body of `000000.started` for an attempt; `push` is unique to this claim. */
  readonly bodyOf: (attempt: number) => { readonly text: string; readonly push: string };
  /** Continue even if the store ignores create-only puts. */
  readonly unfenced: boolean;
  /** Leave the index to an attempt that claims it at the same time. */
  readonly yields?: boolean;
  readonly signal?: AbortSignal;
  /** How long a listing may lag, ms; default 30 s. */
  readonly staleMs?: number;
}

/**
 * The number of the new attempt. Two machines may race only here: each number has one winner. The loser takes the next
 * number, and the earlier attempt then finds itself fenced. Throws status 69 if the store silently replaces an object
 * on a create-only put: two attempts could then both believe that they own the index.
 */
export async function claimAttempt(options: ClaimOptions): Promise<number> {
  const { store, scope, bodyOf, signal } = options;
  let attempt = options.listing.newestAttempt + 1;
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const key = recordKey(scope, attempt, 0, 'started');
    const { text, push } = bodyOf(attempt);
    reached('claim.before-put');
    const outcome = await store.put(key, Buffer.from(text), { meta: { push }, precondition: ABSENT, signal });
    reached('claim.after-put');
    if (outcome.kind === 'stored' && (await isProven(options, key, text))) {
      reached('claim.won');
      return attempt;
    }
    const isRival = isClaim(await readClaim(store, scope, attempt, signal));
    if (isRival && options.yields === true) throw atWorkError(attempt);
    // A listing that lags would hide everything that attempt has stored.
    const listing = isRival
      ? await listWithClaim(store, scope, attempt, { signal, waitMs: options.staleMs })
      : await listRecords(store, scope, signal);
    attempt = Math.max(attempt, listing.newestAttempt) + 1;
  }
  throw new CaptureError(
    EXIT.unavailable,
    `cannot claim an attempt under ${store.url}: all numbers are taken`,
    {
      hint: 'check that nothing else writes below .capture/ of this prefix',
    },
  );
}

/** Another attempt has the index, and is left alone. */
export function atWorkError(attempt: number): CaptureError {
  return new CaptureError(EXIT.fenced, `attempt ${attempt} of another capture works on this index`, {
    hint: 'leave it to that one; run this again if that one was killed',
  });
}

/**
 * Is the claim that the store accepted the only one? If that is unknown, the claimed key is created again: a store
 * that accepts this would not stop a second machine either. A store that checks first and then writes may have
 * accepted two claims at once: the object that remains decides.
 */
async function isProven(
  { store, unfenced, signal }: ClaimOptions,
  key: string,
  text: string,
): Promise<boolean> {
  if (store.createsAtomically) return true;
  const isRefused = async (): Promise<boolean> =>
    (await store.put(key, Buffer.from(text), { meta: {}, precondition: ABSENT, signal })).kind === 'exists';
  if (unfenced || (await isRefused())) return (await readText(store, key, signal)) === text;
  throw new CaptureError(
    EXIT.unavailable,
    `${store.url} ignores create-only puts: two attempts of one index could not be told apart`,
    {
      hint: 'use a store with create-only puts, or --unfenced if your scheduler never starts an index twice',
    },
  );
}

export class FencedError extends CaptureError {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'FencedError';
  }

  constructor(by: string) {
    super(EXIT.fenced, `${by} has taken this index over`, { hint: 'do not run it again' });
    this.name = 'FencedError';
  }
}

interface Claim {
  readonly scope: KeyScope;
  readonly attempt: number;
  /** Of the run that made the claim. */
  readonly runToken: string;
}

interface FenceEvents {
  readonly onFenced: (error: FencedError) => void;
  /**
   * Called after each look for the own claim: with the reason why the store is lost if the claim is gone, else
   * undefined.
   */
  readonly onLooked?: (lost: StoreError | undefined) => void;
  /** When this attempt was last known to be the newest (performance.now()). */
  readonly knownMs?: number;
}

/**
 * Does this attempt still own its index, in the store in which it was claimed? A claim of a later attempt fences it
 * for ever. If its own claim is gone, this is not the store that holds its work.
 */
export class Fence {
  readonly #store: Store;
  readonly #claim: Claim;
  readonly #events: FenceEvents;
  #askedMs: number;
  #asking: Promise<void> | undefined;
  #fenced: FencedError | undefined;

  constructor(store: Store, claim: Claim, events: FenceEvents) {
    this.#store = store;
    this.#claim = claim;
    this.#events = events;
    this.#askedMs = events.knownMs ?? -Infinity;
  }

  get fenced(): boolean {
    return this.#fenced !== undefined;
  }

  /**
   * Resolves while this attempt owns the index. Throws {@link FencedError} if it no longer does, and a StoreError
   * `lost` if the store no longer has its claim. Whatever is visible without a request is checked each time.
   */
  async pass(signal?: AbortSignal): Promise<void> {
    await this.#store.confirm(signal);
    if (this.#fenced === undefined && performance.now() - this.#askedMs > FRESH_MS) {
      this.#asking ??= this.#ask(signal).finally(() => (this.#asking = undefined));
      await this.#asking;
    }
    if (this.#fenced !== undefined) throw this.#fenced;
  }

  /**
   * The same, with an answer that is newer than this call. A higher attempt does not need what is deleted after it:
   * that attempt claims later, then reads, and so sees the record that allowed the deletion.
   */
  async passAnew(signal?: AbortSignal): Promise<void> {
    await this.#store.confirm(signal);
    if (this.#fenced === undefined) await this.#ask(signal);
    if (this.#fenced !== undefined) throw this.#fenced;
  }

  async #ask(signal?: AbortSignal): Promise<void> {
    const { scope, attempt, runToken } = this.#claim;
    const own = await readClaim(this.#store, scope, attempt, signal);
    // Last: the window for a race with a later attempt is as long as this answer is old.
    const startedMs = performance.now();
    const next = await readClaim(this.#store, scope, attempt + 1, signal);
    // Only a record of capture's fences: some other answer must not kill a task.
    if (isClaim(next)) this.#fenced = new FencedError(`attempt ${attempt + 1}`);
    else if (isClaim(own) && own.runToken !== runToken)
      this.#fenced = new FencedError(`another run of attempt ${attempt}`);
    if (this.#fenced !== undefined) return this.#events.onFenced(this.#fenced);
    const lost = own === 'gone' ? lostError(this.#store, this.#claim) : undefined;
    this.#events.onLooked?.(lost);
    if (lost !== undefined) throw lost;
    this.#askedMs = startedMs;
  }
}

function lostError({ url }: Store, { scope, attempt }: Claim): StoreError {
  const key = recordKey(scope, attempt, 0, 'started');
  return new StoreError(
    'lost',
    `${url} is not the store that it was: the claim of attempt ${attempt} (${key}) is gone from it`,
    {
      hint: 'bring the store back as it was, or copy what you need: nothing is deleted in the work directory',
    },
  );
}

/**
 * Deletes objects that nothing needs any more. A store that refuses deletions costs space, not results: it is reported
 * once, and the run continues.
 */
export class Tidy {
  readonly #store: Store;
  readonly #fence: Fence;
  readonly #onRefused: (error: unknown) => void;
  #isTold = false;

  /** `onRefused` is called for the first failure only. */
  constructor(store: Store, fence: Fence, onRefused: (error: unknown) => void) {
    this.#store = store;
    this.#fence = fence;
    this.#onRefused = onRefused;
  }

  /** True if the objects are gone. Throws only if another attempt owns the index, or `signal` aborts. */
  async delete(keys: readonly string[], signal?: AbortSignal): Promise<boolean> {
    if (keys.length === 0) return true;
    await this.#fence.passAnew(signal);
    try {
      reached('delete.before');
      await this.#store.delete(keys, signal);
      reached('delete.after');
      return true;
    } catch (error) {
      if (error instanceof FencedError || signal?.aborted === true) throw error;
      if (!this.#isTold) this.#onRefused(error);
      this.#isTold = true;
      return false;
    }
  }
}

/** The object at an attempt's claim key: its claim, none, or one that is not a record of capture's. */
export type ClaimFound = CaptureRecord | 'gone' | 'damaged';

export async function readClaim(
  store: Store,
  scope: KeyScope,
  attempt: number,
  signal?: AbortSignal,
): Promise<ClaimFound> {
  const record = await readRecord(store, scope, recordKey(scope, attempt, 0, 'started'), { signal });
  if (record === undefined) return 'gone';
  return 'invalid' in record ? 'damaged' : record;
}

export function isClaim(found: ClaimFound): found is CaptureRecord {
  return typeof found === 'object';
}

interface ReadOneOptions {
  readonly signal?: AbortSignal | undefined;
  /** For all records that are kept together. */
  readonly budget?: ValueBudget;
}

/**
 * The record at `key`, or why it is refused: it is another record, not capture's, or it names objects outside its
 * index. Undefined if there is no object.
 */
export async function readRecord(
  store: Store,
  scope: KeyScope,
  key: string,
  { signal, budget }: ReadOneOptions = {},
): Promise<CaptureRecord | { readonly invalid: string } | undefined> {
  const text = await readText(store, key, signal);
  if (text === undefined) return undefined;
  const record = text === null ? UNREADABLE : parseRecord(text, budget);
  if ('invalid' in record) return record;
  const { task, index } = record;
  // Objects in a folder below this index have keys with the same prefix as its records.
  if (keyOf(record) !== key || task !== scope.taskName || index !== scope.index)
    return { invalid: `it is the record ${keyOf(record)}` };
  const foreign = foreignKeyIn(record, scope);
  return foreign === undefined ? record : { invalid: foreignReason(foreign, scope) };
}

/** Why a record, or a list, is refused. */
export function foreignReason(key: string, { taskName, index }: KeyScope): string {
  return `it names ${key}, which no attempt of task ${taskName}, index ${index} can have stored`;
}

function keyOf({ task, index, attempt, seq, kind, end }: CaptureRecord): string {
  const name = kind === 'failed' ? `failed-${end?.status ?? 1}` : kind;
  return recordKey({ taskName: task, index }, attempt, seq, name);
}

/** A small object as text; null if it is too large for a record, undefined if there is none. */
export async function readText(
  store: Store,
  key: string,
  signal?: AbortSignal,
): Promise<string | null | undefined> {
  const got = await store.get(key, { aheadBytes: RECORD_LIMIT_BYTES, signal });
  if (got === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of got.body) {
    total += chunk.length;
    if (total > RECORD_LIMIT_BYTES) return null; // a huge object is not read to its end
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
