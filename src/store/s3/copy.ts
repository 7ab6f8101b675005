// Copies and promotions inside S3: the bytes do not pass through here. Metadata is copied, too. A copy must never be
// partly visible, nor be of another state of its source than the one that was found.
import type { IncomingHttpHeaders } from 'node:http';
import {
  StoreError,
  type ObjectHead,
  type Precondition,
  type PromoteOptions,
  type PutOutcome,
} from '../contract/store.ts';
import { ETAG_OF_ONE_PUT, etagOf, tagOf, xmlOf } from './answer.ts';
import { drained, promised } from '../http/body.ts';
import { escapedPath } from '../http/network.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { checkClaim, md5OfBody, type StoredPart } from './intact.ts';
import { multipart } from './multipart.ts';
import { deleteObjects, getObject, headObject } from './objects.ts';
import { conditionHeaders, outcomeAfter, refusalBy, UNHONOURED } from './outcome.ts';
import { isUnmet } from './server.ts';

export interface CopyLimits {
  /** The largest object for CopyObject (5 GiB). */
  readonly singleBytes: number;
  /** Part size of a multipart copy: at most 10,000 parts of at most 5 GiB. */
  readonly partBytes: number;
}

const LIMITS: CopyLimits = { singleBytes: 5 * 2 ** 30, partBytes: 2 ** 30 };

/** A source that could not be deleted must not delay a push. */
const DELETE_BUDGET_MS = 5000;

export interface Copy {
  readonly from: string;
  readonly to: string;
  readonly signal?: AbortSignal | undefined;
}

/** Copies one object. Throws `missing` if it does not exist. */
export async function copyObject(bucket: Bucket, copy: Copy, limits: CopyLimits = LIMITS): Promise<void> {
  await copyTo(bucket, copy, { precondition: { kind: 'any' } }, limits);
}

/**
 * Copies, then deletes the source. While the source exists, a copy without an answer may still arrive. It is noted, and
 * settled before the target is written again. If a late put may bring the source back, the copy is a multipart upload,
 * which no longer exists once it is completed.
 */
export async function moveObject(
  bucket: Bucket,
  { from, to, signal }: Copy,
  { precondition = { kind: 'any' }, source }: Pick<PromoteOptions, 'precondition' | 'source'>,
): Promise<PutOutcome> {
  let isLost = false;
  const noteLost = (): void => {
    isLost = true;
  };
  let isDeleted = false;
  try {
    const asUpload = bucket.late.mayCreate;
    const outcome = await copyTo(bucket, { from, to, signal }, { precondition, noteLost, source, asUpload });
    if (outcome.kind !== 'stored') return outcome;
    // Without the right to delete, both objects stay. That is no failure.
    await deleteObjects(bucket, [from], { signal, budgetMs: DELETE_BUDGET_MS }).then(
      () => (isDeleted = true),
      () => signal?.throwIfAborted(),
    );
    return outcome;
  } finally {
    if (!isDeleted && (isLost || signal?.aborted === true))
      bucket.late.note(to, { kind: 'promotion', from, precondition });
  }
}

interface CopyHow {
  readonly precondition: Precondition;
  /** Called if a copy of the whole object got no answer. */
  readonly noteLost?: () => void;
  readonly asUpload?: boolean;
  readonly source?: PromoteOptions['source'];
}

async function copyTo(
  bucket: Bucket,
  { from, to, signal }: Copy,
  { precondition, noteLost = () => undefined, source: known, asUpload = false }: CopyHow,
  limits: CopyLimits = LIMITS,
): Promise<PutOutcome> {
  const isAtOnce = ({ sizeBytes, tag }: Pick<ObjectHead, 'sizeBytes' | 'tag'>): boolean =>
    !asUpload && sizeBytes <= limits.singleBytes && !bucket.late.awaits(to, tag);
  // A multipart copy must send all metadata itself.
  const source =
    known !== undefined && isAtOnce(known)
      ? { ...known, meta: { push: known.push } }
      : await sourceOf(bucket, from, signal);
  const options = { meta: source.meta, precondition, signal };
  const job = { bucket, key: to, options, from, source, noteLost };
  const isWhole = isAtOnce(source);
  const copy = isWhole ? copyWhole : (one: CopyJob) => copyInParts(one, limits.partBytes);
  for (;;) {
    const { server } = bucket;
    const isAsked = server.otherConditions === 'honoured';
    const condition = isAsked ? conditionHeaders(bucket, precondition) : {};
    const outcome = (isAsked ? undefined : await doneOrRefused(job)) ?? (await copy({ ...job, condition }));
    if (outcome.kind === 'unhonoured') server.otherConditions = 'unread';
    else if (outcome.kind === 'source-unhonoured') server.sourceConditions = 'unread';
    else if (outcome.kind !== 'stored') return outcome;
    else {
      await checkCopy(job, outcome);
      return { kind: 'stored', tag: outcome.tag };
    }
  }
}

/** The look before a copy on which the server honours no condition. Undefined: the copy may proceed. */
async function doneOrRefused({
  bucket,
  key,
  options: { precondition, signal },
  source,
}: Omit<CopyJob, 'condition'>): Promise<PutOutcome | undefined> {
  if (precondition.kind === 'any') return undefined;
  const there = await headObject(bucket, key, { signal });
  if (there !== undefined && source.meta['push'] !== undefined && isCopyOf(source, there))
    return { kind: 'stored', tag: there.tag };
  return refusalBy(precondition, there);
}

/** The copy of an upload, or one in parts, has a tag that cannot be known. Then its size decides. */
async function checkCopy(
  { bucket, key, from, source, options: { signal } }: Omit<CopyJob, 'condition'>,
  { tag, headers = {} }: Extract<Copied, { kind: 'stored' }>,
): Promise<void> {
  await checkClaim(bucket, {
    operation: 'CopyObject',
    key,
    tag,
    headers,
    expected: source.tag,
    sizeBytes: source.sizeBytes,
    meta: source.meta,
    signal,
    isWhole: ETAG_OF_ONE_PUT.test(source.tag)
      ? async (body) => {
          const md5 = await md5OfBody(body);
          if (md5 === source.tag) return true;
          // An encrypted source has a tag that is no md5.
          const sent = await getObject(bucket, from, { signal });
          return sent !== undefined && md5 === (await md5OfBody(sent.body));
        }
      : undefined,
  });
}

/** What a copy must know of its source. */
type Source = Pick<ObjectHead, 'tag' | 'sizeBytes' | 'meta'>;

async function sourceOf(bucket: Bucket, from: string, signal: AbortSignal | undefined): Promise<Source> {
  const source = await headObject(bucket, from, { signal });
  if (source !== undefined) return source;
  throw new StoreError('missing', `CopyObject ${bucket.url}/${from}: there is no such object to copy`);
}

interface CopyJob {
  readonly bucket: Bucket;
  readonly key: string;
  readonly options: {
    readonly meta: ObjectHead['meta'];
    readonly precondition: Precondition;
    readonly signal: AbortSignal | undefined;
  };
  readonly from: string;
  readonly source: Source;
  readonly condition: Readonly<Record<string, string>>;
  readonly noteLost: () => void;
}

/** The server refuses the current state of the source. */
const SOURCE_UNHONOURED = { kind: 'source-unhonoured' } as const;

type Copied =
  | Exclude<PutOutcome, { kind: 'stored' }>
  /** With the headers of the answer, if there was one. */
  | (Extract<PutOutcome, { kind: 'stored' }> & { readonly headers?: IncomingHttpHeaders })
  | typeof UNHONOURED
  | typeof SOURCE_UNHONOURED;

/** The header x-amz-copy-source is a URL path. */
function copySource({ bucket, from }: CopyJob): string {
  const holder = bucket.name.startsWith('arn:') ? `${bucket.name}/object` : bucket.name;
  return escapedPath(`${holder}/${bucket.prefix}${from}`);
}

/** A late copy must not copy another object. */
function sourceHeaders(job: CopyJob): Record<string, string> {
  const isAsked = job.bucket.server.sourceConditions === 'honoured' && job.source.tag !== '';
  const which: Record<string, string> = isAsked
    ? { 'x-amz-copy-source-if-match': `"${job.source.tag}"` }
    : {};
  return { 'x-amz-copy-source': copySource(job), ...which };
}

async function copyWhole(job: CopyJob): Promise<Copied> {
  const { bucket, key, options } = job;
  const onFailure = async (failure: Failure): Promise<Copied | undefined> => {
    if (failure.lost) job.noteLost();
    return outcomeOf(job, failure);
  };
  const ask = { operation: 'CopyObject' as const, key, signal: options.signal, onFailure };
  return request(bucket, ask, async (send): Promise<Copied> => {
    const sent = await send({ headers: { ...sourceHeaders(job), ...job.condition } });
    const tag = tagOf(promised((await xmlOf(sent)).text('ETag'), 'ETag'));
    return { kind: 'stored', tag, headers: sent.headers };
  });
}

/** What a copy without an answer has done after all. */
async function outcomeOf(job: CopyJob, failure: Failure): Promise<Copied | undefined> {
  const { bucket, key, from, source, options } = job;
  const isRefused = isUnmet(failure) || failure.status === 501;
  if (!isRefused && !failure.lost) return undefined;
  const look = isRefused ? { signal: options.signal } : { signal: options.signal, budgetMs: 0 };
  try {
    const there = await headObject(bucket, key, look);
    if (there !== undefined && isCopyOf(source, there)) return { kind: 'stored', tag: there.tag };
    // If the source has changed or is gone, the error stands.
    if (!isRefused || (await headObject(bucket, from, look))?.tag !== source.tag) return undefined;
    const no = refusalBy(options.precondition, there);
    if (no !== undefined) return no;
    return Object.keys(job.condition).length > 0 ? UNHONOURED : SOURCE_UNHONOURED;
  } catch (error) {
    if (isRefused) throw error;
    options.signal?.throwIfAborted();
    return undefined;
  }
}

function isCopyOf(source: Source, there: ObjectHead): boolean {
  return there.meta['push'] === source.meta['push'] && there.sizeBytes === source.sizeBytes;
}

async function copyInParts(job: CopyJob, partBytes: number): Promise<Copied> {
  const { bucket, key, source, condition, options } = job;
  const { meta, signal } = options;
  const onFailure = async (failure: Failure): Promise<PutOutcome | typeof UNHONOURED | undefined> =>
    outcomeAfter(job)(failure);
  const upload = { key, meta, signal, condition, onFailure, beforeEnd: async () => undefined };
  return multipart(bucket, upload, async (uploadId) => {
    const copied: StoredPart[] = [];
    // A range has at least one byte, and an upload at least one part.
    if (source.sizeBytes === 0) {
      const call = { query: { partNumber: '1', uploadId }, body: new Uint8Array(0) };
      const answer = await request(bucket, { operation: 'UploadPart', key, signal }, async (send) => {
        const sent = await send(call);
        await drained(sent);
        return sent;
      });
      return [{ number: 1, etag: etagOf(answer), sizeBytes: 0 }];
    }
    for (let first = 0; first < source.sizeBytes; first += partBytes) {
      const last = Math.min(first + partBytes, source.sizeBytes) - 1;
      const number = copied.length + 1;
      const call = {
        query: { partNumber: String(number), uploadId },
        headers: {
          'x-amz-copy-source': copySource(job),
          'x-amz-copy-source-range': `bytes=${first}-${last}`,
        },
      };
      const ask = { operation: 'UploadPartCopy' as const, key, signal };
      const etag = await request(bucket, ask, async (send) => {
        const answer = await xmlOf(await send(call));
        return promised(answer.text('ETag'), 'ETag');
      });
      copied.push({ number, etag, sizeBytes: last + 1 - first });
    }
    return copied;
  });
}
