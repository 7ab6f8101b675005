// Has another attempt taken this index over? Asked before everything that cannot be undone: a commit, a
// deletion, a push that replaces something. Once fenced, always fenced.
import { recordKey, type KeyScope } from '../core/keys.ts';
import type { Store } from '../store/store.ts';

/** How long an answer is good for, ms. */
const FRESH_MS = 5000;

export class FencedError extends Error {
  constructor(attempt: number) {
    super(`attempt ${attempt + 1} has taken this index over`);
    this.name = 'FencedError';
  }
}

export interface Fence {
  /** Resolves while this attempt owns the index; throws {@link FencedError} when it no longer does. */
  pass(signal?: AbortSignal): Promise<void>;
  /**
   * The same with an answer that is newer than this call. What is deleted after it, a higher attempt does not
   * need: it claims later, then reads, and so sees the record that made the deletion right.
   */
  passAnew(signal?: AbortSignal): Promise<void>;
  readonly fenced: boolean;
}

export function openFence(
  store: Store,
  scope: KeyScope,
  attempt: number,
  onFenced: (error: FencedError) => void,
): Fence {
  const key = recordKey(scope, attempt + 1, 0, 'started');
  let askedMs = -Infinity;
  let asking: Promise<void> | undefined;
  let fenced: FencedError | undefined;
  const ask = async (signal?: AbortSignal): Promise<void> => {
    const startedMs = performance.now();
    if ((await store.head(key, signal)) !== undefined) {
      fenced = new FencedError(attempt);
      onFenced(fenced);
      return;
    }
    askedMs = startedMs;
  };
  return {
    get fenced() {
      return fenced !== undefined;
    },
    async pass(signal) {
      if (fenced === undefined && performance.now() - askedMs > FRESH_MS) {
        asking ??= ask(signal).finally(() => (asking = undefined));
        await asking;
      }
      if (fenced !== undefined) throw fenced;
    },
    async passAnew(signal) {
      if (fenced === undefined) await ask(signal);
      if (fenced !== undefined) throw fenced;
    },
  };
}
