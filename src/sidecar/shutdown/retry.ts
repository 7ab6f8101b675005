// Tries a step of the drain again as long as the store is what fails: each operation has a budget of its own,
// which ends long before the drain does. Never goes on after the drain's time.
import { setTimeout as sleep } from 'node:timers/promises';
import { pauseAfter, type BackOff } from '../../model/back-off.ts';
import { StoreError } from '../../store/contract/store.ts';

const BACK_OFF: BackOff = { firstMs: 250, mostMs: 15_000 };

/** Resolves to what `step` returns; throws its last error when `signal` has aborted or no retry can help. */
export async function retryUntil<T>(step: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof StoreError) || signal.aborted) throw error;
      await sleep(pauseAfter(BACK_OFF, tries), undefined, { signal }).catch(() => undefined);
      if (signal.aborted) throw error;
    }
  }
}
