// Deletes objects that nothing needs any more. A store that refuses deletions costs space, not results: it is
// said once, and the run goes on.
import { reached } from '../native/failpoint.ts';
import type { Store } from '../store/contract/store.ts';
import { FencedError, type Fence } from './fence.ts';

export interface Tidy {
  /** True when the objects are gone. Throws only when another attempt owns the index, or `signal` aborts. */
  delete(keys: readonly string[], signal?: AbortSignal): Promise<boolean>;
}

/** `onRefused` is called for the first failure only. */
export function openTidy(store: Store, fence: Fence, onRefused: (error: unknown) => void): Tidy {
  let told = false;
  return {
    async delete(keys, signal) {
      if (keys.length === 0) return true;
      await fence.passAnew(signal);
      try {
        reached('delete.before');
        await store.delete(keys, signal);
        reached('delete.after');
        return true;
      } catch (error) {
        if (error instanceof FencedError || signal?.aborted === true) throw error;
        if (!told) onRefused(error);
        told = true;
        return false;
      }
    },
  };
}
