// Writing to S3. Small bodies are one PutObject, larger ones a multipart upload. If an answer was lost, or is not one
// of S3, the push id in the object's metadata tells what took place: a write is never reported as failed when it was
// done, nor as ours when it was another's.
import { linkSignals } from '../../model/waiting.ts';
import { reached } from '../../native/failpoint.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { drained, etagOf } from './answer.ts';
import { type Bucket, request } from './bucket.ts';
import type { Failure } from './failure.ts';
import { metaHeaders, multipart, ONLY_CREATE, type StoredPart } from './multipart.ts';
import { headObject } from './objects.ts';
import type { Answer } from './transport.ts';

const OCTETS = { 'content-type': 'application/octet-stream' };
/** Each part in flight is in memory. */
const PARTS_AT_ONCE = 2;

interface PutJob {
  readonly bucket: Bucket;
  readonly key: string;
  readonly options: PutOptions;
}

/** Makes one object visible, whole or not at all. */
export async function putObject(
  bucket: Bucket,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const job = { bucket, key, options };
  if (body instanceof Uint8Array) return putBytes(job, body);
  const chunks = body[Symbol.asyncIterator]();
  try {
    const first = await chunks.next();
    if (first.done === true) return await putBytes(job, new Uint8Array(0));
    // One part is sent when the body has ended without an error: a file that changed while it was read says so at
    // its end.
    const second = await chunks.next();
    if (second.done === true) return await putBytes(job, first.value);
    return await putParts(job, numbered([first.value, second.value], chunks));
  } finally {
    await chunks.return?.();
  }
}

async function putBytes(job: PutJob, body: Uint8Array): Promise<PutOutcome> {
  const { bucket, key, options } = job;
  const { meta, ifAbsent, signal } = options;
  const headers = {
    ...OCTETS,
    ...metaHeaders(meta),
    ...(ifAbsent === true ? ONLY_CREATE : {}),
  };
  const ask = { operation: 'PutObject' as const, key, signal, onFailure: outcomeAfter(job) };
  return request(bucket, ask, async (send): Promise<PutOutcome> => {
    reached('s3.before-put');
    const answer = await send({ headers, body });
    reached('s3.after-put');
    await drained(answer);
    etagOf(answer);
    options.onSent?.(body.byteLength);
    return 'stored';
  });
}

interface NumberedPart {
  /** From 1 on. */
  readonly number: number;
  readonly bytes: Uint8Array;
}

type Parts = AsyncIterator<NumberedPart, undefined>;

async function* numbered(head: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>): Parts {
  let number = 0;
  for (const bytes of head) yield { number: (number += 1), bytes };
  for (let next = await rest.next(); next.done !== true; next = await rest.next())
    yield { number: (number += 1), bytes: next.value };
}

async function putParts(job: PutJob, parts: Parts): Promise<PutOutcome> {
  const { bucket, key, options } = job;
  // Ceph RGW ignores If-None-Match when an upload is completed: look first, it is better than nothing.
  if (options.ifAbsent === true && (await headObject(bucket, key, options)) !== undefined) return 'exists';
  return multipart(bucket, { ...options, key, onFailure: outcomeAfter(job) }, (uploadId) =>
    sendParts(job, uploadId, parts),
  );
}

/** The first failure stops the other part that is under way: on a slow link that would take minutes. */
async function sendParts(job: PutJob, uploadId: string, parts: Parts): Promise<readonly StoredPart[]> {
  const { options } = job;
  const stop = new AbortController();
  const { signal, unlink } = linkSignals(stop.signal, options.signal);
  const sent: StoredPart[] = [];
  const sendInTurn = async (): Promise<void> => {
    for (let next = await parts.next(); next.done !== true; next = await parts.next()) {
      signal.throwIfAborted();
      const { number, bytes } = next.value;
      const answer = await sendPart(job, uploadId, next.value, signal);
      sent[number - 1] = { number, etag: etagOf(answer) };
      answer.onceLeft(() => options.release?.(bytes));
    }
  };
  try {
    await Promise.all(Array.from({ length: PARTS_AT_ONCE }, sendInTurn));
    return sent;
  } catch (error) {
    stop.abort(error);
    options.signal?.throwIfAborted();
    throw error;
  } finally {
    unlink();
  }
}

async function sendPart(
  { bucket, key, options }: PutJob,
  uploadId: string,
  { number, bytes }: NumberedPart,
  signal: AbortSignal,
): Promise<Answer> {
  const call = { query: { partNumber: String(number), uploadId }, headers: OCTETS, body: bytes };
  return request(bucket, { operation: 'UploadPart', key, signal }, async (send) => {
    reached('s3.before-part');
    const answer = await send(call);
    reached('s3.after-part');
    await drained(answer);
    etagOf(answer);
    options.onSent?.(bytes.byteLength);
    return answer;
  });
}

/**
 * Asks what a failed write has done after all; undefined when that is not known, or nothing. Another push's object is
 * the answer to a create-only put, whatever has failed: the key is taken. Ceph RGW replaces an object although the put
 * that completes an upload is create-only, and then answers the loser's next tries with 500 for as long as it is asked.
 */
function outcomeAfter({ bucket, key, options }: PutJob) {
  const { meta, ifAbsent, signal } = options;
  return async (failure: Failure): Promise<PutOutcome | undefined> => {
    const isTaken = failure.status === 412;
    // Without a push id nobody can tell whose object it is.
    if (isTaken && meta['push'] === undefined) return 'exists';
    if (!isTaken && !failure.lost && failure.code !== 'NoSuchUpload') return undefined;
    try {
      const there = await headObject(bucket, key, isTaken ? { signal } : { signal, budgetMs: 0 });
      const push = there?.meta['push'];
      if (push !== undefined && push === meta['push']) return 'stored';
      if (push !== undefined && ifAbsent === true) return 'exists';
    } catch (error) {
      // In an outage the look fails as the write did: the write is tried again and its error tells more.
      if (isTaken) throw error;
      signal?.throwIfAborted();
    }
    return isTaken ? 'exists' : undefined;
  };
}
