// Writing to S3. Small bodies are one PutObject, larger ones a multipart upload. A write whose answer was
// lost, or is not one of S3, is settled by the push id in the object's metadata; it must never be reported as failed when it took
// place, nor as ours when it was another's.
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { reached } from '../../native/failpoint.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { request, type Bucket } from './bucket.ts';
import { promised, type Failure } from './failure.ts';
import { headObject } from './read.ts';
import { SMALLEST_PART_BYTES, upload } from './upload.ts';

/** Makes one object visible, whole or not at all. */
export async function putObject(
  bucket: Bucket,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  if (body instanceof Uint8Array) return putBytes(bucket, key, body, options);
  const chunks = body[Symbol.asyncIterator]();
  try {
    const first = await chunks.next();
    if (first.done === true) return await putBytes(bucket, key, new Uint8Array(0), options);
    // Only the last part is this small. It is sent when the body has ended without an error: a file that
    // changed while it was read says so at its end.
    const second = first.value.byteLength < SMALLEST_PART_BYTES ? await chunks.next() : undefined;
    if (second?.done === true) return await putBytes(bucket, key, first.value, options);
    const head = second === undefined ? [first.value] : [first.value, second.value];
    return await putParts(bucket, key, { head, rest: chunks }, options);
  } finally {
    await chunks.return?.();
  }
}

async function putBytes(
  bucket: Bucket,
  key: string,
  body: Uint8Array,
  options: PutOptions,
): Promise<PutOutcome> {
  const { meta, ifAbsent, signal } = options;
  const settle = (failure: Failure): Promise<PutOutcome | undefined> =>
    settlePut(bucket, key, options, failure);
  return request(
    bucket,
    { operation: 'PutObject', key, signal, settle },
    async (client, http): Promise<PutOutcome> => {
      const input = { Bucket: bucket.name, Key: bucket.prefix + key, Body: body, Metadata: { ...meta } };
      reached('s3.before-put');
      const answer = await client.send(
        new PutObjectCommand({ ...input, IfNoneMatch: ifAbsent === true ? '*' : undefined }),
        http,
      );
      reached('s3.after-put');
      promised(answer.ETag, 'ETag');
      options.onSent?.(body.byteLength);
      return 'stored';
    },
  );
}

async function putParts(
  bucket: Bucket,
  key: string,
  body: { readonly head: readonly Uint8Array[]; readonly rest: AsyncIterator<Uint8Array> },
  options: PutOptions,
): Promise<PutOutcome> {
  // Ceph RGW ignores If-None-Match when an upload is completed: look first, it is better than nothing.
  if (options.ifAbsent === true && (await headObject(bucket, key, options)) !== undefined) return 'exists';
  return upload(bucket, key, body, options, (failure) => settlePut(bucket, key, options, failure));
}

/**
 * What a failed write has done after all; undefined when that is not known, or nothing. Another push's object is the
 * answer to a create-only put, whatever has failed: the key is taken. Ceph RGW replaces an object although the put that
 * completes an upload is create-only, and then answers the loser's next tries with 500 for as long as it is asked.
 */
async function settlePut(
  bucket: Bucket,
  key: string,
  { meta, ifAbsent, signal }: PutOptions,
  failure: Failure,
): Promise<PutOutcome | undefined> {
  const isTaken = failure.status === 412;
  if (!isTaken && !failure.lost && failure.code !== 'NoSuchUpload') return undefined;
  try {
    const there = await headObject(bucket, key, isTaken ? { signal } : { signal, budgetMs: 0 });
    const push = there?.meta['push'];
    if (push === meta['push']) return 'stored';
    if (push !== undefined && ifAbsent === true) return 'exists';
  } catch (error) {
    // In an outage the look fails as the write did: the write is tried again and its error tells more.
    if (isTaken) throw error;
    signal?.throwIfAborted();
  }
  return isTaken ? 'exists' : undefined;
}
