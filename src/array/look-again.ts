// For commands that ask a store again and again: an outage ends none of them.
import { StoreError } from '../store/contract/store.ts';
import type { Tools } from './command.ts';

/** Undefined if the store gives no answer now: it may later. */
export async function lookAgain<T>(
  look: () => Promise<T>,
  { log }: Pick<Tools, 'log'>,
): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== 'transient') throw error;
    log.warn(`${error.message}: it is asked again`, { hint: error.hint });
    return undefined;
  }
}
