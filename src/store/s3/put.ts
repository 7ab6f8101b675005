// Writes to S3. Small bodies are one PutObject, larger ones a multipart upload. No late write undoes a newer one: a
// write that replaces an object has a condition, or is an upload.
import type { IncomingHttpHeaders } from 'node:http';
import { md5Of } from '../../model/md5.ts';
import { linkSignals } from '../../model/waiting.ts';
import { reached } from '../../native/failpoint.ts';
import { joined } from '../contract/driver.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { etagOf, tagOf } from './answer.ts';
import { drained } from '../http/body.ts';
import { type Bucket, request } from './bucket.ts';
import { checkIntact, checkPart, CRC32, crc32Of, type StoredPart } from './intact.ts';
import { metaHeaders, multipart } from './multipart.ts';
import { conditionHeaders, outcomeAfter, unmet, type UNHONOURED, type Write } from './outcome.ts';
import { learnSums, readsConditions } from './server.ts';
import { settle } from './settle.ts';
import type { Answer } from '../http/transport.ts';
import { uploadBySdk } from './upload.ts';

const OCTETS = { 'content-type': 'application/octet-stream' };
/** Each part in flight is in memory. */
const PARTS_AT_ONCE = 2;

type PutJob = Write & { readonly options: PutOptions };

/** Makes one object visible, atomically. */
export async function putObject(
  bucket: Bucket,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const job = { bucket, key, options };
  if (body instanceof Uint8Array) {
    await settle(bucket, key, options.signal);
    return putBytes(job, body);
  }
  const chunks = body[Symbol.asyncIterator]();
  try {
    await settle(bucket, key, options.signal);
    const first = await chunks.next();
    if (first.done === true) return await putBytes(job, new Uint8Array(0));
    // The first part is sent only after the body has continued or ended without an error: a file that changed while it
    // was read throws at its end.
    const second = await chunks.next();
    if (second.done === true) return await putBytes(job, first.value);
    const head = [first.value, second.value];
    const { reach } = bucket.location;
    if (reach === undefined) return await putParts(job, numbered(joined(head, chunks)));
    const partBytes = first.value.byteLength;
    return await uploadBySdk({ ...job, reach, chunks: joined(head, chunks), partBytes });
  } finally {
    await chunks.return?.();
  }
}

async function putBytes(job: PutJob, body: Uint8Array): Promise<PutOutcome> {
  const { bucket, key, options } = job;
  // A late put may wait for exactly the ETag that this put would produce. An upload gets another ETag.
  if (bucket.late.of(key).length > 0 && bucket.late.awaits(key, options.md5 ?? md5Of(body)))
    return putInOnePart(job, body);
  if (options.precondition?.kind === 'is') return replaceBytes(job, body, options.precondition.tag);
  const settleFailure = outcomeAfter(job);
  let isOver = false;
  try {
    const outcome = await putAtOnce(job, body, (failure) => {
      if (failure.lost) bucket.late.noteCreation();
      return settleFailure(failure);
    });
    isOver = true;
    return outcome.kind === 'unhonoured' ? { kind: 'exists' } : outcome;
  } finally {
    if (!isOver) bucket.late.noteCreation();
  }
}

function putInOnePart(job: PutJob, body: Uint8Array): Promise<PutOutcome> {
  // The caller keeps a body that was given as bytes.
  return putParts({ ...job, options: { ...job.options, release: undefined } }, numbered(joined([body])));
}

/**
 * A late put must not undo a newer one. It cannot if the server honours its condition. Otherwise the body is sent as
 * the only part of a multipart upload: an upload has its own id, and no longer exists once it is completed.
 */
async function replaceBytes(job: PutJob, body: Uint8Array, tag: string): Promise<PutOutcome> {
  const { bucket, key, options } = job;
  if (tag === '' || !(await readsConditions(bucket, options.signal))) return putInOnePart(job, body);
  const isQuoted = bucket.server.quotesTags;
  let isOver = false;
  const settleFailure = outcomeAfter(job);
  try {
    const outcome = await putAtOnce(job, body, (failure) => {
      if (failure.lost) bucket.late.notePut(key, tag);
      return settleFailure(failure);
    });
    isOver = true;
    if (outcome.kind !== 'unhonoured') {
      if (outcome.kind === 'stored') bucket.server.conditions = 'honoured';
      return outcome;
    }
    if (isQuoted && bucket.server.conditions !== 'honoured') {
      bucket.server.quotesTags = false;
      return await replaceBytes(job, body, tag);
    }
    bucket.server.conditions = 'unread';
    return await putInOnePart(job, body);
  } finally {
    // The put was aborted while it was under way.
    if (!isOver && options.signal?.aborted === true) bucket.late.notePut(key, tag);
  }
}

async function putAtOnce(
  { bucket, key, options }: PutJob,
  body: Uint8Array,
  onFailure: ReturnType<typeof outcomeAfter>,
): Promise<PutOutcome | typeof UNHONOURED> {
  const { meta, precondition, signal } = options;
  const call = {
    headers: { ...OCTETS, ...metaHeaders(meta), ...conditionHeaders(bucket, precondition) },
    body,
  };
  const ask = { operation: 'PutObject' as const, key, signal, onFailure };
  let headers: IncomingHttpHeaders = {};
  const outcome = await request(bucket, ask, async (send): Promise<PutOutcome> => {
    reached('s3.before-put');
    const answer = await send(call);
    reached('s3.after-put');
    await drained(answer);
    const tag = tagOf(etagOf(answer));
    headers = answer.headers;
    options.onSent?.(body.byteLength);
    return { kind: 'stored', tag };
  });
  if (outcome.kind !== 'stored') return outcome;
  // If the answer was lost, the tag is that of the object. It counts if the server's tags are known.
  if (headers.etag === undefined && bucket.server.etags === 'md5') headers = { etag: outcome.tag };
  await checkIntact(bucket, { key, body, options, headers });
  return outcome;
}

interface NumberedPart {
  /** From 1. */
  readonly number: number;
  readonly bytes: Uint8Array;
}

type Parts = AsyncIterator<NumberedPart, undefined>;

async function* numbered(chunks: AsyncIterable<Uint8Array>): Parts {
  let number = 0;
  for await (const bytes of chunks) yield { number: (number += 1), bytes };
}

async function putParts(job: PutJob, parts: Parts): Promise<PutOutcome> {
  const { bucket, key, options } = job;
  const { meta, precondition, signal } = options;
  const isAsked = precondition?.kind !== 'is' || bucket.server.conditions === 'honoured';
  const isHonoured = precondition?.kind !== 'is' || bucket.server.otherConditions === 'honoured';
  // Ceph RGW ignores If-None-Match at the completion of an upload. A look before is better than nothing.
  const taken = precondition?.kind === 'absent' ? await unmet(job) : undefined;
  if (taken !== undefined) return taken;
  const upload = {
    key,
    meta,
    signal,
    condition: isAsked ? conditionHeaders(bucket, precondition) : {},
    beforeEnd: async () => (isHonoured ? undefined : unmet(job)),
    onFailure: outcomeAfter(job),
    sums: true,
  };
  return multipart(bucket, upload, (uploadId) => sendParts(job, uploadId, parts));
}

/** The first failure also stops the other part in flight, which could take minutes on a slow link. */
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
      const crc32 = answer.headers[CRC32];
      sent[number - 1] = {
        number,
        etag: etagOf(answer),
        sizeBytes: bytes.byteLength,
        crc32: typeof crc32 === 'string' ? crc32 : undefined,
      };
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
  // A server that supports the checksum refuses bytes that were changed on their way.
  const sum: Record<string, string> = bucket.server.checksums === 'asked' ? { [CRC32]: crc32Of(bytes) } : {};
  const call = {
    query: { partNumber: String(number), uploadId },
    headers: { ...OCTETS, ...sum },
    body: bytes,
  };
  const answer = await request(bucket, { operation: 'UploadPart', key, signal }, async (send) => {
    reached('s3.before-part');
    const sent = await send(call);
    reached('s3.after-part');
    await drained(sent);
    etagOf(sent);
    return sent;
  });
  try {
    if (number === 1 && answer.headers[CRC32] !== undefined)
      await learnSums(bucket, { key, uploadId, signal });
    checkPart(bucket, key, bytes, answer.headers);
  } catch (error) {
    // The server may have answered before it has read the body, whose memory may be reused soon.
    answer.stopSending();
    throw error;
  }
  options.onSent?.(bytes.byteLength);
  return answer;
}
