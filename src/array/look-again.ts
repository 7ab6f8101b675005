// For commands that ask a store again and again: an outage ends none of them. What the user hears of it says outage.ts.
import { paceOf } from '../store/contract/driver.ts';
import { StoreError } from '../store/contract/store.ts';

/** Undefined if the store gives no answer now: it may later. */
export async function lookAgain<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof StoreError) || paceOf(error) === undefined) throw error;
    return undefined;
  }
}
