// Checks a recorded object against its record: reads all of it, or uses only what a listing says.
import { sealedEnding } from '../../model/format/keys.ts';
import type { Segment, StoredFile } from '../../model/format/records.ts';
import { CaptureError } from '../../model/errors.ts';
import { NO_ZSTD_HINT } from '../../native/zstd.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { CorruptError, NoZstdError } from '../../restore/failure.ts';
import { recordedBytes } from '../../restore/fetch.ts';
import { ObjectMissingError } from '../../restore/object-stream.ts';
import type { ListedObject, Store } from '../../store/contract/store.ts';
import { EXIT } from '../../model/exit-status.ts';

/** What a record says of one object. */
export type Recorded = Pick<Segment, 'key' | 'push' | 'md5' | 'size' | 'compressed'> &
  Pick<StoredFile, 'storedSize'>;

/** Resolves to how the object differs from its record; undefined if it does not. */
export type Check = (file: Recorded) => Promise<string | undefined>;

export const GONE = 'its object is not in the store';

/** Reads the whole object. */
export function wholeCheck(store: Store, signal: AbortSignal): Check {
  const options = { parallel: 1, decompress: decompressStream, signal };
  return async (file) => {
    try {
      // oxlint-disable-next-line no-empty -- to its end, where it is checked
      for await (const _ of recordedBytes(store, file, options));
      return undefined;
    } catch (error) {
      if (error instanceof ObjectMissingError) return GONE;
      if (error instanceof CorruptError) return error.message;
      if (error instanceof NoZstdError)
        throw new CaptureError(EXIT.unavailable, `cannot check ${file.key}: ${error.message}`, {
          hint: `${NO_ZSTD_HINT}, or --fast`,
        });
      throw error;
    }
  };
}

/** Each listed object takes about 150 bytes of memory. In a larger store, each object is requested on its own. */
const MOST_LISTED = 200_000;

/**
 * Compares sizes. If `listed`, it uses a listing of the whole store, unless the store is too large. A listing's md5 may
 * be wrong, so an object that differs is read.
 */
export async function fastCheck(store: Store, listed: boolean, signal: AbortSignal): Promise<Check> {
  const there = listed ? await listAll(store, signal) : undefined;
  const whole = wholeCheck(store, signal);
  return async (file) => {
    // A run may have stored it since the listing.
    const found = there?.get(file.key) ?? (await store.head(file.key, signal));
    if (found === undefined) return GONE;
    const isAsFile = !file.compressed && sealedEnding(file.key) === undefined;
    const expected = file.storedSize ?? (isAsFile ? file.size : undefined);
    if (expected !== undefined && found.sizeBytes !== expected)
      return `its object has ${found.sizeBytes} bytes, not ${expected}`;
    const md5 = 'md5' in found ? found.md5 : undefined;
    const isOther = isAsFile && md5 !== undefined && md5 !== file.md5;
    const push = 'meta' in found ? found.meta['push'] : undefined;
    return isOther || (push !== undefined && push !== file.push) ? whole(file) : undefined;
  };
}

async function listAll(
  store: Store,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Omit<ListedObject, 'key' | 'modifiedMs'>> | undefined> {
  const there = new Map<string, Omit<ListedObject, 'key' | 'modifiedMs'>>();
  for await (const { key, sizeBytes, md5 } of store.list('', signal)) {
    if (there.size === MOST_LISTED) return undefined;
    there.set(key, { sizeBytes, md5 });
  }
  return there;
}
