// Multipart uploads: start, let the caller send the parts, complete. Every exit other than success aborts the upload,
// so that no parts are left that cost money. The sweep finds the parts of killed processes.
import type { IncomingHttpHeaders } from 'node:http';
import { reached } from '../../native/failpoint.ts';
import {
  StoreError,
  type IsMine,
  type ObjectMeta,
  type PutOptions,
  type PutOutcome,
} from '../contract/store.ts';
import { tagOf, xmlOf } from './answer.ts';
import { drained, promised } from '../http/body.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { checkClaim, claimOfParts, type StoredPart, tagOfParts } from './intact.ts';
import type { UNHONOURED } from './outcome.ts';
import { type Listing, pagesOf } from './pages.ts';

/** An abort must not delay the end of the run. The sweep finds what it leaves. */
const ABORT_BUDGET_MS = 5000;

export interface MultipartJob extends Pick<PutOptions, 'meta' | 'signal'> {
  readonly key: string;
  /** Parts are sent with CRC-32 checksums, unless the server refuses them. */
  readonly sums?: boolean;
  /** The condition on the completion, if the server honours it. */
  readonly condition: Readonly<Record<string, string>>;
  /** Called when all parts are stored. An outcome ends the upload instead of its completion. */
  readonly beforeEnd: () => Promise<PutOutcome | undefined>;
  /** Finds out what a failed completion has done; undefined if it is unknown, or nothing. */
  readonly onFailure: (failure: Failure) => Promise<Completed | undefined>;
}

type Completed = PutOutcome | typeof UNHONOURED;

/**
 * Joins the parts that `fill` has stored, in the order in which it returns them. A late completion does no harm,
 * because its upload no longer exists: it was completed, or it is aborted before the key is written again.
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
    let { outcome, headers } = await complete(bucket, job, uploadId, parts);
    // The object to be replaced is there: it was just looked at.
    if (outcome.kind === 'unhonoured')
      ({ outcome, headers } = await complete(bucket, { ...job, condition: {} }, uploadId, parts));
    isCompleted = outcome.kind === 'stored';
    if (outcome.kind === 'stored')
      await checkClaim(bucket, { ...job, ...claimOfParts(parts), tag: outcome.tag, headers });
    return outcome.kind === 'unhonoured' ? { kind: 'replaced-meanwhile' } : outcome;
  } finally {
    if (!isCompleted) await giveUp(bucket, job.key, uploadId);
  }
}

/** Refuses if a late put may replace an object with exactly this ETag. */
export function refuseAwaited(bucket: Bucket, key: string, parts: readonly StoredPart[]): void {
  if (!bucket.late.awaits(key, tagOfParts(parts))) return;
  throw new StoreError(
    'transient',
    `CompleteMultipartUpload ${bucket.url}/${key}: an earlier put of it that got no answer may still arrive`,
  );
}

/** The headers for an object's metadata. */
export function metaHeaders(meta: ObjectMeta): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name in meta) headers[`x-amz-meta-${name}`] = meta[name] ?? '';
  return headers;
}

async function begin(bucket: Bucket, job: MultipartJob): Promise<string> {
  const { key, meta, signal, sums } = job;
  const { server } = bucket;
  const asks = sums === true && server.checksums === 'asked';
  // Some servers refuse headers that they do not know.
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
): Promise<{ readonly outcome: Completed; readonly headers: IncomingHttpHeaders }> {
  const call = {
    query: { uploadId },
    headers: { 'content-type': 'application/xml', ...condition },
    body: Buffer.from(documentOf(parts)),
  };
  const ask = { operation: 'CompleteMultipartUpload' as const, key, signal, onFailure };
  let headers: IncomingHttpHeaders = {};
  const outcome = await request(bucket, ask, async (send): Promise<Completed> => {
    reached('s3.before-complete');
    const sent = await send(call);
    const answer = await xmlOf(sent);
    reached('s3.after-complete');
    ({ headers } = sent);
    // Ceph RGW leaves the ETag empty if two uploads of one key are completed concurrently: the winner is unknown.
    return { kind: 'stored', tag: tagOf(promised(answer.text('ETag'), 'ETag')) };
  });
  return { outcome, headers };
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

/** Aborts without throwing: the error that led here is the one to report. */
export async function giveUp(bucket: Bucket, key: string, uploadId: string): Promise<void> {
  try {
    await abortUpload(bucket, { key, uploadId, budgetMs: ABORT_BUDGET_MS });
  } catch {
    bucket.late.note(key, { kind: 'upload', uploadId });
  }
}

/** Aborts an upload. If it no longer exists, that is no error. */
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
 * Aborts the uploads of keys that are `mine`. Returns false if the server lacks the operation (501, 405), or the
 * credentials lack the right (403). The parts then wait for the bucket's lifecycle rule.
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

/** Returns false if uploads cannot be listed. */
async function* pendingUploads(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<PendingUpload, boolean> {
  const onFailure = async (failure: Failure): Promise<'unsupported' | undefined> =>
    isUnsupported(failure) ? 'unsupported' : undefined;
  const pages = pagesOf(bucket, {
    operation: 'ListMultipartUploads',
    key: prefix,
    signal,
    onFailure,
    query: { uploads: '' },
    lists: ['Upload', 'Key'],
    // A key may have several.
    ascends: false,
    next: nextUploads,
  });
  let next = await pages.next();
  for (; next.done !== true; next = await pages.next()) {
    for (const { key, xml } of next.value) yield { key, uploadId: xml.text('UploadId') ?? '' };
  }
  return next.value !== 'unsupported';
}

const nextUploads: Listing<never>['next'] = (page, plainKey) => {
  const key = promised(page.text('NextKeyMarker'), 'NextKeyMarker');
  // A directory bucket has no other marker.
  const uploadId = page.text('NextUploadIdMarker');
  return {
    'key-marker': plainKey(key),
    ...(uploadId === undefined ? {} : { 'upload-id-marker': uploadId }),
  };
};

function isUnsupported({ status }: Failure): boolean {
  return status === 501 || status === 405 || status === 403;
}
