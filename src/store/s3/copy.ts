// Copies inside S3, without the bytes passing through here. Metadata goes along; a copy must never be visible
// in part.
import { CopyObjectCommand, UploadPartCopyCommand, type CompletedPart } from '@aws-sdk/client-s3';
import { StoreError, type ObjectHead, type PutOutcome } from '../contract/store.ts';
import { request, type Bucket } from './bucket.ts';
import { promised, type Failure } from './failure.ts';
import { multipart } from './multipart.ts';
import { headObject } from './read.ts';

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
  return [bucket.name, ...(bucket.prefix + key).split('/')].map(encodeURIComponent).join('/');
}

async function copyWhole(job: CopyJob): Promise<void> {
  const { bucket, to, signal } = job;
  const onFailure = async ({ lost }: Failure): Promise<PutOutcome | undefined> =>
    lost ? outcomeOf(job) : undefined;
  await request(bucket, { operation: 'CopyObject', key: to, signal, onFailure }, async (client, http) => {
    const target = { Bucket: bucket.name, Key: bucket.prefix + to, CopySource: job.copySource };
    const answer = await client.send(new CopyObjectCommand(target), http);
    return promised(answer.CopyObjectResult?.ETag, 'ETag');
  });
}

async function copyInParts(job: CopyJob, partBytes: number): Promise<void> {
  const { bucket, to, source, signal } = job;
  const onFailure = (): Promise<PutOutcome | undefined> => outcomeOf(job);
  await multipart(bucket, { key: to, meta: source.meta, signal, onFailure }, async (target) => {
    const copied: CompletedPart[] = [];
    for (let first = 0; first < source.sizeBytes; first += partBytes) {
      const last = Math.min(first + partBytes, source.sizeBytes) - 1;
      const part = {
        ...target,
        PartNumber: copied.length + 1,
        CopySource: job.copySource,
        CopySourceRange: `bytes=${first}-${last}`,
      };
      const ask = { operation: 'UploadPartCopy' as const, key: to, signal };
      const ETag = await request(bucket, ask, async (client, http) => {
        const answer = await client.send(new UploadPartCopyCommand(part), http);
        return promised(answer.CopyPartResult?.ETag, 'ETag');
      });
      copied.push({ PartNumber: part.PartNumber, ETag });
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
