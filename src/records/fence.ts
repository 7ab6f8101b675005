// Does this attempt still own its index, in the store in which it was claimed? This is asked before everything that
// cannot be undone: a commit, a deletion (also of a local file), a push that replaces something, the last record. The
// claim of a later attempt fences us for ever. If our own claim is gone, this is not the store that holds our work.
import { recordKey, type KeyScope } from '../model/format/keys.ts';
import { StoreError, type Store } from '../store/contract/store.ts';
import { isClaim, readClaim } from './read.ts';

/** How long an answer is good for, ms. */
const FRESH_MS = 5000;

export class FencedError extends Error {
  constructor(by: string) {
    super(`${by} has taken this index over`);
    this.name = 'FencedError';
  }
}

export interface Claim {
  readonly scope: KeyScope;
  readonly attempt: number;
  /** Of the run that has made the claim. */
  readonly runToken: string;
}

export interface FenceEvents {
  readonly onFenced: (error: FencedError) => void;
  /** Told each time that our claim was looked for: why the store is lost if the claim is gone, else undefined. */
  readonly onLooked?: (lost: StoreError | undefined) => void;
}

export class Fence {
  readonly #store: Store;
  readonly #claim: Claim;
  readonly #events: FenceEvents;
  #askedMs = -Infinity;
  #asking: Promise<void> | undefined;
  #fenced: FencedError | undefined;

  constructor(store: Store, claim: Claim, events: FenceEvents) {
    this.#store = store;
    this.#claim = claim;
    this.#events = events;
  }

  get fenced(): boolean {
    return this.#fenced !== undefined;
  }

  /**
   * Resolves while this attempt owns the index; throws {@link FencedError} when it no longer does, and a StoreError
   * `lost` when the store no longer holds its claim. What can be seen without a request is looked at each time.
   */
  async pass(signal?: AbortSignal): Promise<void> {
    await this.#store.confirm();
    if (this.#fenced === undefined && performance.now() - this.#askedMs > FRESH_MS) {
      this.#asking ??= this.#ask(signal).finally(() => (this.#asking = undefined));
      await this.#asking;
    }
    if (this.#fenced !== undefined) throw this.#fenced;
  }

  /**
   * The same with an answer that is newer than this call. What is deleted after it, a higher attempt does not
   * need: it claims later, then reads, and so sees the record that made the deletion right.
   */
  async passAnew(signal?: AbortSignal): Promise<void> {
    await this.#store.confirm();
    if (this.#fenced === undefined) await this.#ask(signal);
    if (this.#fenced !== undefined) throw this.#fenced;
  }

  async #ask(signal?: AbortSignal): Promise<void> {
    const { scope, attempt, runToken } = this.#claim;
    const own = await readClaim(this.#store, scope, attempt, signal);
    // Last: the race with a later attempt is as long as this answer is old.
    const startedMs = performance.now();
    const next = await readClaim(this.#store, scope, attempt + 1, signal);
    // Only a record of ours fences: an answer that anything may give must not kill a task.
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
