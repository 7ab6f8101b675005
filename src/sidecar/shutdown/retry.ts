// Tries a step of the drain again as long as the store is what fails: each operation has a budget of its own,
// which ends long before the drain does. Never goes on after the drain's time.
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store/contract/store.ts';

const FIRST_PAUSE_MS = 250;
const MOST_PAUSE_MS = 15_000;

/** Resolves to what `step` returns; throws its last error when `signal` has aborted or no retry can help. */
export async function retryUntil<T>(step: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(MOST_PAUSE_MS, pauseMs * 2)) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof StoreError) || signal.aborted) throw error;
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) throw error;
    }
  }
}
