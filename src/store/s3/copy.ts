// Copies inside S3, without the bytes passing through here. Metadata goes along; a copy must never be visible
// in part.
import { StoreError, type ObjectHead, type PutOutcome } from '../contract/store.ts';
import { promised, xmlOf } from './answer.ts';
import { escapedPath, request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { multipart, type StoredPart } from './multipart.ts';
import { headObject } from './objects.ts';

export interface CopyLimits {
  /** CopyObject takes no larger object (5 GiB). */
  readonly singleBytes: number;
  /** Of a copy in parts: at most 10,000 of them, each at most 5 GiB. */
  readonly partBytes: number;
}

const LIMITS: CopyLimits = { singleBytes: 5 * 2 ** 30, partBytes: 2 ** 30 };

export interface Copy {
  readonly from: string;
  readonly to: string;
  readonly signal?: AbortSignal | undefined;
}

/** Copies one object; throws `missing` when it is not there. */
export async function copyObject(
  bucket: Bucket,
  { from, to, signal }: Copy,
  limits: CopyLimits = LIMITS,
): Promise<void> {
  const source = await headObject(bucket, from, { signal });
  if (source === undefined) {
    throw new StoreError('missing', `CopyObject ${bucket.url}/${from}: there is no such object to copy`);
  }
  const job = { bucket, from, to, source, copySource: copySource(bucket, from), signal };
  await (source.sizeBytes <= limits.singleBytes ? copyWhole(job) : copyInParts(job, limits.partBytes));
}

interface CopyJob extends Copy {
  readonly bucket: Bucket;
  readonly source: ObjectHead;
  readonly copySource: string;
}

/** The header x-amz-copy-source is a URL path. */
function copySource(bucket: Bucket, key: string): string {
  return escapedPath(`${bucket.name}/${bucket.prefix}${key}`);
}

async function copyWhole(job: CopyJob): Promise<void> {
  const { bucket, to, signal } = job;
  const onFailure = async ({ lost }: Failure): Promise<PutOutcome | undefined> =>
    lost ? outcomeOf(job) : undefined;
  await request(bucket, { operation: 'CopyObject', key: to, signal, onFailure }, async (send) => {
    const answer = await xmlOf(await send({ headers: { 'x-amz-copy-source': job.copySource } }));
    return promised(answer.text('ETag'), 'ETag');
  });
}

async function copyInParts(job: CopyJob, partBytes: number): Promise<void> {
  const { bucket, to, source, signal } = job;
  const onFailure = (): Promise<PutOutcome | undefined> => outcomeOf(job);
  await multipart(bucket, { key: to, meta: source.meta, signal, onFailure }, async (uploadId) => {
    const copied: StoredPart[] = [];
    for (let first = 0; first < source.sizeBytes; first += partBytes) {
      const last = Math.min(first + partBytes, source.sizeBytes) - 1;
      const number = copied.length + 1;
      const call = {
        query: { partNumber: String(number), uploadId },
        headers: {
          'x-amz-copy-source': job.copySource,
          'x-amz-copy-source-range': `bytes=${first}-${last}`,
        },
      };
      const ask = { operation: 'UploadPartCopy' as const, key: to, signal };
      const etag = await request(bucket, ask, async (send) => {
        const answer = await xmlOf(await send(call));
        return promised(answer.text('ETag'), 'ETag');
      });
      copied.push({ number, etag });
    }
    return copied;
  });
}

/** A copy whose answer was lost, or is not one of S3, has taken place when it is there. */
async function outcomeOf({ bucket, to, source, signal }: CopyJob): Promise<PutOutcome | undefined> {
  const there = await headObject(bucket, to, { signal, budgetMs: 0 }).catch(() => undefined);
  return there?.meta['push'] === source.meta['push'] && there?.sizeBytes === source.sizeBytes
    ? 'stored'
    : undefined;
}
