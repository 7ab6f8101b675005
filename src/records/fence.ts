// Does this attempt still own its index, in the store in which it was claimed? Asked before everything that cannot be
// undone: a commit, a deletion, also of a local file, a push that replaces something, the last record. A later
// attempt's claim fences for ever; our own claim that is gone says that this is not the store that holds our work.
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

export interface Fence {
  /**
   * Resolves while this attempt owns the index; throws {@link FencedError} when it no longer does, and a StoreError
   * `lost` when the store no longer holds its claim. What can be seen without a request is looked at each time.
   */
  pass(signal?: AbortSignal): Promise<void>;
  /**
   * The same with an answer that is newer than this call. What is deleted after it, a higher attempt does not
   * need: it claims later, then reads, and so sees the record that made the deletion right.
   */
  passAnew(signal?: AbortSignal): Promise<void>;
  readonly fenced: boolean;
}

export interface Claim {
  readonly scope: KeyScope;
  readonly attempt: number;
  /** Of the run that has made the claim. */
  readonly runToken: string;
}

export interface FenceEvents {
  readonly onFenced: (error: FencedError) => void;
  /** Each time that our claim was looked for and not found, and undefined each time that it was. */
  readonly onLooked?: (lost: StoreError | undefined) => void;
}

export function openFence(store: Store, claim: Claim, { onFenced, onLooked }: FenceEvents): Fence {
  const { scope, attempt, runToken } = claim;
  let askedMs = -Infinity;
  let asking: Promise<void> | undefined;
  let fenced: FencedError | undefined;
  const ask = async (signal?: AbortSignal): Promise<void> => {
    const own = await readClaim(store, scope, attempt, signal);
    // Last: the race with a later attempt is as long as this answer is old.
    const startedMs = performance.now();
    const next = await readClaim(store, scope, attempt + 1, signal);
    // Only a record of ours fences: an answer that anything may give must not kill a task.
    if (isClaim(next)) fenced = new FencedError(`attempt ${attempt + 1}`);
    else if (isClaim(own) && own.runToken !== runToken)
      fenced = new FencedError(`another run of attempt ${attempt}`);
    if (fenced !== undefined) return onFenced(fenced);
    const lost = own === 'gone' ? lostError(store, claim) : undefined;
    onLooked?.(lost);
    if (lost !== undefined) throw lost;
    askedMs = startedMs;
  };
  return {
    get fenced() {
      return fenced !== undefined;
    },
    async pass(signal) {
      await store.confirm();
      if (fenced === undefined && performance.now() - askedMs > FRESH_MS) {
        asking ??= ask(signal).finally(() => (asking = undefined));
        await asking;
      }
      if (fenced !== undefined) throw fenced;
    },
    async passAnew(signal) {
      await store.confirm();
      if (fenced === undefined) await ask(signal);
      if (fenced !== undefined) throw fenced;
    },
  };
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
