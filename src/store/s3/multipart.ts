// Multipart uploads: one is begun, filled by the caller, completed. On every way out but success it is aborted, so that
// no parts are left behind to be paid for; those that a killed process has left, the sweep finds.
import { reached } from '../../native/failpoint.ts';
import { md5Of } from '../../model/md5.ts';
import {
  StoreError,
  type IsMine,
  type ObjectMeta,
  type PutOptions,
  type PutOutcome,
} from '../contract/store.ts';
import { drained, ETAG_OF_ONE_PUT, promised, tagOf, xmlOf, type Xml } from './answer.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { decodedKey, listedPrefix, relativeKey } from './objects.ts';
import type { UNHONOURED } from './outcome.ts';

/** An abort must not hold up the end of the run; what it leaves, the sweep finds. */
const ABORT_BUDGET_MS = 5000;

export interface MultipartJob extends Pick<PutOptions, 'meta' | 'signal'> {
  readonly key: string;
  /** Parts come with CRC-32 sums, unless the server refuses them. */
  readonly sums?: boolean;
  /** Of the completion: its condition, where the server honours it. */
  readonly condition: Readonly<Record<string, string>>;
  /** Awaited when all parts are there: an outcome ends the upload instead of its completion. */
  readonly beforeEnd: () => Promise<PutOutcome | undefined>;
  /** What a completion that failed has done after all; undefined when that is not known, or nothing. */
  readonly onFailure: (failure: Failure) => Promise<Completed | undefined>;
}

type Completed = PutOutcome | typeof UNHONOURED;

export interface StoredPart {
  /** From 1 on. */
  readonly number: number;
  readonly etag: string;
  /** As the server has told it. */
  readonly crc32?: string | undefined;
}

/**
 * Makes one object of the parts that `fill` has stored, in the order in which it returns them. A completion that is late
 * finds its upload gone: it has been completed, or it is aborted before the key is written again.
 */
export async function multipart(
  bucket: Bucket,
  job: MultipartJob,
  fill: (uploadId: string) => Promise<readonly StoredPart[]>,
): Promise<PutOutcome> {
  const uploadId = await begin(bucket, job);
  let isCompleted = false;
  try {
    const parts = await fill(uploadId);
    refuseAwaited(bucket, job.key, parts);
    const before = await job.beforeEnd();
    if (before !== undefined) return before;
    let outcome = await complete(bucket, job, uploadId, parts);
    // What is to be replaced stands there: it was looked at just now.
    if (outcome.kind === 'unhonoured')
      outcome = await complete(bucket, { ...job, condition: {} }, uploadId, parts);
    isCompleted = outcome.kind === 'stored';
    return outcome.kind === 'unhonoured' ? { kind: 'replaced-meanwhile' } : outcome;
  } finally {
    if (!isCompleted) await giveUp(bucket, job.key, uploadId);
  }
}

/** An object with this very ETag would be replaced by a put that is still under way, if it arrives. */
export function refuseAwaited(bucket: Bucket, key: string, parts: readonly StoredPart[]): void {
  const digests = parts.map(({ etag }) => ETAG_OF_ONE_PUT.exec(etag)?.[1] ?? '');
  const tag = `${md5Of(Buffer.from(digests.join(''), 'hex'))}-${parts.length}`;
  if (!bucket.late.awaits(key, tag)) return;
  throw new StoreError(
    'transient',
    `CompleteMultipartUpload ${bucket.url}/${key}: an earlier put of it that got no answer may still arrive`,
  );
}

/** How S3 is told what is stored with an object. */
export function metaHeaders(meta: ObjectMeta): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name in meta) headers[`x-amz-meta-${name}`] = meta[name] ?? '';
  return headers;
}

async function begin(bucket: Bucket, job: MultipartJob): Promise<string> {
  const { key, meta, signal, sums } = job;
  const { server } = bucket;
  const asks = sums === true && server.checksums === 'asked';
  // Some servers refuse what they do not know.
  const onFailure = async ({ status }: Failure): Promise<'refused' | undefined> =>
    asks && (status === 400 || status === 501) ? 'refused' : undefined;
  const ask = { operation: 'CreateMultipartUpload' as const, key, signal, onFailure };
  const headers = { ...metaHeaders(meta), ...(asks ? { 'x-amz-checksum-algorithm': 'CRC32' } : {}) };
  const begun = await request(bucket, ask, async (send) => {
    const answer = await xmlOf(await send({ query: { uploads: '' }, headers }));
    return { uploadId: promised(answer.text('UploadId'), 'UploadId') };
  });
  if (begun !== 'refused') return begun.uploadId;
  server.checksums = 'refused';
  return begin(bucket, job);
}

async function complete(
  bucket: Bucket,
  { key, condition, signal, onFailure }: MultipartJob,
  uploadId: string,
  parts: readonly StoredPart[],
): Promise<Completed> {
  const headers = { 'content-type': 'application/xml', ...condition };
  const call = { query: { uploadId }, headers, body: Buffer.from(documentOf(parts)) };
  const ask = { operation: 'CompleteMultipartUpload' as const, key, signal, onFailure };
  return request(bucket, ask, async (send): Promise<Completed> => {
    reached('s3.before-complete');
    const answer = await xmlOf(await send(call));
    reached('s3.after-complete');
    // Ceph RGW leaves it empty when two uploads of one key are completed at once: nobody knows yet whose it is.
    return { kind: 'stored', tag: tagOf(promised(answer.text('ETag'), 'ETag')) };
  });
}

function documentOf(parts: readonly StoredPart[]): string {
  const listed = parts.map(
    ({ number, etag, crc32 }) =>
      `<Part><ETag>${escapedXml(etag)}</ETag><PartNumber>${number}</PartNumber>${crc32 === undefined ? '' : `<ChecksumCRC32>${escapedXml(crc32)}</ChecksumCRC32>`}</Part>`,
  );
  const namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';
  return `<CompleteMultipartUpload xmlns="${namespace}">${listed.join('')}</CompleteMultipartUpload>`;
}

function escapedXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

/** The error that led here is the one to report. */
export async function giveUp(bucket: Bucket, key: string, uploadId: string): Promise<void> {
  try {
    await abortUpload(bucket, { key, uploadId, budgetMs: ABORT_BUDGET_MS });
  } catch {
    bucket.late.note(key, { kind: 'upload', uploadId });
  }
}

/** Ends an upload; one that is gone is no error. */
export async function abortUpload(
  bucket: Bucket,
  {
    uploadId,
    ...of
  }: {
    readonly uploadId: string;
    readonly key: string;
    readonly signal?: AbortSignal | undefined;
    readonly budgetMs?: number;
  },
): Promise<void> {
  const onFailure = async ({ status }: Failure): Promise<void | 'gone'> =>
    status === 404 ? 'gone' : undefined;
  const ask = { operation: 'AbortMultipartUpload' as const, ...of, onFailure };
  await request(bucket, ask, async (send) => drained(await send({ query: { uploadId } })));
}

/**
 * Aborts the uploads of keys that are `mine`. False for servers without the operation (501, 405) and credentials without
 * the right (403): the parts then wait for the bucket's lifecycle rule, as they would without us.
 */
export async function sweepUploads(
  bucket: Bucket,
  prefix: string,
  mine: IsMine,
  signal?: AbortSignal,
): Promise<boolean> {
  const uploads = pendingUploads(bucket, prefix, signal);
  let next = await uploads.next();
  for (; next.done !== true; next = await uploads.next()) {
    const { key, uploadId } = next.value;
    if (!(await mine(key))) continue;
    const onFailure = async (failure: Failure): Promise<'gone' | undefined> =>
      failure.status === 404 || isUnsupported(failure) ? 'gone' : undefined;
    await request(bucket, { operation: 'AbortMultipartUpload', key, signal, onFailure }, async (send) =>
      drained(await send({ query: { uploadId } })),
    );
  }
  return next.value;
}

interface PendingUpload {
  readonly key: string;
  readonly uploadId: string;
}

/** Returns false where they cannot be listed. */
async function* pendingUploads(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<PendingUpload, boolean> {
  const onFailure = async (failure: Failure): Promise<'unsupported' | undefined> =>
    isUnsupported(failure) ? 'unsupported' : undefined;
  const ask = { operation: 'ListMultipartUploads' as const, key: prefix, signal, onFailure };
  let after: Readonly<Record<string, string>> | undefined = {};
  while (after !== undefined) {
    const query = { uploads: '', prefix: listedPrefix(bucket, prefix), 'encoding-type': 'url', ...after };
    const page: Xml | 'unsupported' = await request(bucket, ask, async (send) =>
      xmlOf(await send({ query })),
    );
    if (page === 'unsupported') return false;
    for (const upload of page.all('Upload')) {
      const key = relativeKey(bucket, upload.text('Key') ?? '');
      if (key.startsWith(prefix)) yield { key, uploadId: upload.text('UploadId') ?? '' };
    }
    after = nextUploads(page);
  }
  return true;
}

/** Where the next page begins. */
function nextUploads(page: Xml): Readonly<Record<string, string>> | undefined {
  const key = page.text('NextKeyMarker');
  if (page.text('IsTruncated') !== 'true' || key === undefined) return undefined;
  // A directory bucket has no other marker.
  const uploadId = page.text('NextUploadIdMarker');
  return {
    'key-marker': decodedKey(key),
    ...(uploadId === undefined ? {} : { 'upload-id-marker': uploadId }),
  };
}

function isUnsupported({ status }: Failure): boolean {
  return status === 501 || status === 405 || status === 403;
}
