// What is known of a bucket's server: which conditions on writes it honours, and what its ETags are. It is learnt from
// answers, once for all users of a bucket's sockets.
import { randomUUID } from 'node:crypto';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { drained, etagOf } from './answer.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { deleteObjects } from './objects.ts';

/** No object has this ETag, with quotes or without. */
const WRONG_TAG = '"00000000000000000000000000000000"';

/**
 * True if the server evaluates If-Match at all. Otherwise it would accept a late put. This is tested once, with an
 * empty object that the server must refuse.
 */
export async function readsConditions(bucket: Bucket, signal: AbortSignal | undefined): Promise<boolean> {
  const { server } = bucket;
  if (server.conditions === 'unknown') {
    const isRefused = await refusesWrongTag(bucket, signal);
    // Another put may have learnt more in the meantime.
    if (server.conditions === 'unknown') server.conditions = isRefused ? 'read' : 'unread';
  }
  return server.conditions !== 'unread';
}

async function refusesWrongTag(bucket: Bucket, signal: AbortSignal | undefined): Promise<boolean> {
  // Task names contain no tilde.
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
  // Without the right to delete, an empty object stays.
  if (!isRefused) await deleteObjects(bucket, [key], { signal }).catch(() => undefined);
  signal?.throwIfAborted();
  return isRefused;
}

/** The server says that a condition does not hold. S3 answers 404 to If-Match if no object exists. */
export function isUnmet({ status, code }: Failure): boolean {
  return status === 412 || (status === 404 && code !== 'NoSuchBucket' && code !== 'NoSuchUpload');
}
