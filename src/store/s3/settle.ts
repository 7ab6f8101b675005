// Before a key is written again, this ends earlier requests without an answer, so that they cannot undo the new object
// when they arrive.
import { StoreError } from '../contract/store.ts';
import type { Bucket } from './bucket.ts';
import { moveObject } from './copy.ts';
import type { LateWrite } from './late.ts';
import { abortUpload } from './multipart.ts';

/** Throws the store's errors. While the requests are not settled, the key must not be written. */
export async function settle(bucket: Bucket, key: string, signal: AbortSignal | undefined): Promise<void> {
  for (const write of bucket.late.of(key)) {
    // Harmless, as long as the key never has that very ETag again (put.ts).
    if (write.kind === 'put') continue;
    if (write.kind === 'upload') await abortUpload(bucket, { key, uploadId: write.uploadId, signal });
    else await finish(bucket, key, write, signal);
    bucket.late.settled(key, write);
  }
}

/** A promotion that is done has nothing left to copy. */
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
