// For commands that poll a store: an outage does not end them. outage.ts tells the user about it.
import { paceOf } from '../store/contract/driver.ts';
import { StoreError } from '../store/contract/store.ts';

/** Undefined if the store does not answer now, but may later. */
export async function lookAgain<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof StoreError) || paceOf(error) === undefined) throw error;
    return undefined;
  }
}
