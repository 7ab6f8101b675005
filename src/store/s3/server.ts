// What is known of a bucket's server: which conditions on writes it honours, what its ETags are, and whether it computes
// checksums. It is learnt from answers, once for all users of a bucket's sockets.
import { randomUUID } from 'node:crypto';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { etagOf } from './answer.ts';
import { drained } from '../http/body.ts';
import { request, type Bucket, type ServerFacts } from './bucket.ts';
import type { Failure } from './failure.ts';
import { CRC32, crc32Of } from './intact.ts';
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

/** A part of no upload: its sum is wrong, and no completion names it. */
const WRONG_PART = { number: '10000', bytes: Buffer.from('0'), sum: 'AAAAAA==' };

/**
 * Finds out whether the server computes the checksums in its answers: some only repeat what was sent. This is tested
 * once, with a part that the server must refuse, and only where another proof of the bytes is known.
 */
export async function learnSums(
  bucket: Bucket,
  {
    key,
    uploadId,
    signal,
  }: { readonly key: string; readonly uploadId: string; readonly signal: AbortSignal },
): Promise<void> {
  const { server } = bucket;
  if (server.sums !== 'unknown' || server.etags !== 'md5') return;
  const { number, bytes, sum } = WRONG_PART;
  const onFailure = async ({ status, kind }: Failure): Promise<ServerFacts['sums'] | undefined> => {
    if (status === 400) return 'computed';
    return kind === 'refused' || kind === 'denied' ? 'repeated' : undefined;
  };
  const ask = { operation: 'UploadPart' as const, key, signal, onFailure };
  server.sums = await request(bucket, ask, async (send): Promise<ServerFacts['sums']> => {
    const query = { partNumber: number, uploadId };
    const answer = await send({ query, headers: { [CRC32]: sum }, body: bytes });
    await drained(answer);
    return answer.headers[CRC32] === crc32Of(bytes) ? 'computed' : 'repeated';
  });
}

/** The server says that a condition does not hold. S3 answers 404 to If-Match if no object exists. */
export function isUnmet({ status, code }: Failure): boolean {
  return status === 412 || (status === 404 && code !== 'NoSuchBucket' && code !== 'NoSuchUpload');
}
