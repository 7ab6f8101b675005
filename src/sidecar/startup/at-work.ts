// Does another attempt work on this index? For a task of `capture array`: two arrays on one store must not take each
// other's tasks. Whether a silent attempt lives cannot be seen. But one that has written a record since the array
// began, and has not ended, does.
import { parseRecordKey } from '../../model/format/keys.ts';
import { isLast, RECORD_KINDS } from '../../model/format/records.ts';
import { atWorkError } from '../../records/claim.ts';
import type { RecordListing } from '../../records/list.ts';

/** Throws status 76 if so. `lastSeen`: the key of the newest record when the array began, or an empty text. */
export function refuseAtWork({ keys }: RecordListing, lastSeen: string | undefined): void {
  if (lastSeen === undefined) return;
  for (const key of keys.toReversed()) {
    const at = parseRecordKey(key);
    const kind = RECORD_KINDS.find((one) => one === at?.kind);
    if (at === undefined || kind === undefined) continue;
    if (key > lastSeen && !isLast(kind)) throw atWorkError(at.attempt);
    return;
  }
}
