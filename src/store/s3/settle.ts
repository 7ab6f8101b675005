// Before a key is written anew: what was sent to it without an answer is ended, so that it cannot undo the new object
// when it arrives after all.
import { StoreError } from '../contract/store.ts';
import type { Bucket } from './bucket.ts';
import { moveObject } from './copy.ts';
import type { LateWrite } from './late.ts';
import { abortUpload } from './multipart.ts';

/** Throws what the store throws: as long as it is not settled, the key is not to be written. */
export async function settle(bucket: Bucket, key: string, signal: AbortSignal | undefined): Promise<void> {
  for (const write of bucket.late.of(key)) {
    // Harmless, as long as the key never has that very ETag again (put.ts).
    if (write.kind === 'put') continue;
    if (write.kind === 'upload') await abortUpload(bucket, { key, uploadId: write.uploadId, signal });
    else await finish(bucket, key, write, signal);
    bucket.late.settled(key, write);
  }
}

/** A promotion has nothing to copy any more once it is done. */
async function finish(
  bucket: Bucket,
  to: string,
  { from, precondition }: Extract<LateWrite, { kind: 'promotion' }>,
  signal: AbortSignal | undefined,
): Promise<void> {
  try {
    await moveObject(bucket, { from, to, signal }, { precondition });
  } catch (error) {
    if (!(error instanceof StoreError && error.kind === 'missing')) throw error;
  }
}
