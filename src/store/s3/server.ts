// What is known of the server of a bucket: which conditions of a write it honours, and what its ETags are. Found out by
// what it answers, once for all that share a bucket's sockets.
import { randomUUID } from 'node:crypto';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { drained, etagOf } from './answer.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { deleteObjects } from './objects.ts';

/** No object has this ETag, with quotes or without. */
const WRONG_TAG = '"00000000000000000000000000000000"';

/**
 * True if the server looks at If-Match at all. One that does not would take a late put for a good one: so it is asked,
 * once, with an empty object that it must refuse.
 */
export async function readsConditions(bucket: Bucket, signal: AbortSignal | undefined): Promise<boolean> {
  const { server } = bucket;
  if (server.conditions === 'unknown') {
    const isRefused = await refusesWrongTag(bucket, signal);
    // Another put may have found out more meanwhile.
    if (server.conditions === 'unknown') server.conditions = isRefused ? 'read' : 'unread';
  }
  return server.conditions !== 'unread';
}

async function refusesWrongTag(bucket: Bucket, signal: AbortSignal | undefined): Promise<boolean> {
  // No task has a name with a tilde.
  const key = `${TASKS_PREFIX}~if-match-${randomUUID()}`;
  const onFailure = async (failure: Failure): Promise<boolean | undefined> => {
    if (isUnmet(failure)) return true;
    return failure.status === 501 ? false : undefined;
  };
  const ask = { operation: 'PutObject' as const, key, signal, onFailure };
  const isRefused = await request(bucket, ask, async (send) => {
    const answer = await send({ headers: { 'if-match': WRONG_TAG }, body: new Uint8Array(0) });
    await drained(answer);
    etagOf(answer);
    return false;
  });
  // If it may not be deleted, an empty object stays.
  if (!isRefused) await deleteObjects(bucket, [key], { signal }).catch(() => undefined);
  signal?.throwIfAborted();
  return isRefused;
}

/** The server says that a condition does not hold; S3 says 404 to If-Match where nothing stands. */
export function isUnmet({ status, code }: Failure): boolean {
  return status === 412 || (status === 404 && code !== 'NoSuchBucket' && code !== 'NoSuchUpload');
}
