// Which objects of a store do the records of all its indices name? One request for each index, where the objects
// themselves would take one each: a listing of inputs asks when it meets very many.
import pLimit from 'p-limit';
import { parseRecordKey, TASKS_PREFIX } from '../../model/format/keys.ts';
import { readNewest } from '../../records/read.ts';
import type { Store } from '../../store/contract/store.ts';

const READ_AT_ONCE = 8;

/** Keys of results by the newest record of each index of each task. What it does not name is nobody's by that. */
export async function recordedKeys(store: Store, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const newest = new Map<string, string>();
  for await (const { key } of store.list(TASKS_PREFIX, signal)) {
    const at = parseRecordKey(key);
    // The claim of an attempt, its first, names nothing.
    if (at === undefined || at.seq === 0 || at.kind === 'list') continue;
    newest.set(key.slice(0, key.lastIndexOf('/')), key);
  }
  const keys = new Set<string>();
  const read = async (key: string): Promise<void> => {
    const [, taskName = '', index = ''] = key.split('/');
    const listing = { scope: { taskName, index }, keys: [key], newestAttempt: 0 };
    const { records } = await readNewest(store, listing, Infinity, signal);
    for (const { results } of records) for (const file of results) keys.add(file.key);
  };
  await pLimit(READ_AT_ONCE).map(newest.values(), read);
  return keys;
}
