// `--skip-done`: is this index done? Only records decide. It does not matter what a restore would need: the checkpoints
// of an index that is done may have been deleted.
import pLimit from 'p-limit';
import { parseRecordKey } from '../../model/format/keys.ts';
import type { Settings } from '../../model/format/settings.ts';
import type { RecordListing } from '../../records/list.ts';
import { readNewest } from '../../records/read.ts';
import type { Store } from '../../store/contract/store.ts';
import { storedNow } from '../queue/overwritten.ts';

/** A look costs a round trip and no bytes. */
const LOOKS_AT_ONCE = 16;

/**
 * The attempt of the same run id whose record says that this index is done; undefined if there is none. A later attempt
 * that only began, for instance one that could not restore, changes nothing. But it may have pushed something before it
 * died, so each result must still match the record.
 */
export async function doneAttempt(
  store: Store,
  listing: RecordListing,
  { identity }: Settings,
  signal: AbortSignal,
): Promise<number | undefined> {
  const kinds = listing.keys.map((key) => parseRecordKey(key)?.kind);
  if (kinds.findLast((kind) => kind !== 'list' && kind !== 'started') !== 'done') return undefined;
  const { records } = await readNewest(store, listing, { signal });
  const last = records.findLast(({ record }) => record.kind !== 'started');
  if (last?.record.kind !== 'done' || last.record.runId !== identity.runId) return undefined;
  const { attempt } = last.record;
  if (attempt === listing.newestAttempt) return attempt;
  const stand = await pLimit(LOOKS_AT_ONCE).map(
    last.results,
    async (file) => (await storedNow(store, file, signal)) === file,
  );
  return stand.every(Boolean) ? attempt : undefined;
}
