// Deletes objects that nothing needs any more. A store that refuses deletions costs space, not results: it is
// said once, and the run goes on.
import { reasonOf } from '../core/errors.ts';
import { FencedError } from '../records/fence.ts';
import type { Context } from './context.ts';

const refused = new WeakSet<Context>();

/** True when the objects are gone. Throws only when another attempt owns the index. */
export async function deleteObjects(context: Context, keys: readonly string[]): Promise<boolean> {
  const { fence, store, signal, log } = context;
  if (keys.length === 0) return true;
  try {
    await fence.pass(signal);
    await store.delete(keys, signal);
    return true;
  } catch (error) {
    if (error instanceof FencedError || signal.aborted) throw error;
    if (!refused.has(context)) {
      log.warn(`objects that are not needed any more cannot be deleted and stay: ${reasonOf(error)}`, {
        hint: 'allow DeleteObject under this prefix, or let a lifecycle rule remove them',
      });
    }
    refused.add(context);
    return false;
  }
}
