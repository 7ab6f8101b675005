// Deletes objects that nothing needs any more. A store that refuses deletions costs space, not results: the user is
// told once, and the run goes on.
import { reached } from '../native/failpoint.ts';
import type { Store } from '../store/contract/store.ts';
import { FencedError, type Fence } from './fence.ts';

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

  /** True when the objects are gone. Throws only when another attempt owns the index, or `signal` aborts. */
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
