// One multipart upload: begun, filled by the caller, completed. On every way out but success it is aborted, so that no
// parts are left behind to be paid for.
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  type CompletedPart,
} from '@aws-sdk/client-s3';
import { reached } from '../../native/failpoint.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { request, type Bucket } from './bucket.ts';
import { promised, type Failure } from './failure.ts';

/** An abort must not hold up the end of the run; what it leaves, sweep finds. */
const ABORT_BUDGET_MS = 5000;

export interface MultipartJob extends Pick<PutOptions, 'meta' | 'ifAbsent' | 'signal'> {
  readonly key: string;
  /** What a completion that failed has done after all; undefined when that is not known, or nothing. */
  readonly onFailure: (failure: Failure) => Promise<PutOutcome | undefined>;
}

/** What the request for each part must name. */
export interface MultipartTarget {
  readonly Bucket: string;
  readonly Key: string;
  readonly UploadId: string;
}

/** Makes one object of the parts that `fill` has stored, in the order in which it returns them. */
export async function multipart(
  bucket: Bucket,
  job: MultipartJob,
  fill: (target: MultipartTarget) => Promise<readonly CompletedPart[]>,
): Promise<PutOutcome> {
  const target = await begin(bucket, job);
  let outcome: PutOutcome | undefined;
  try {
    outcome = await complete(bucket, job, target, await fill(target));
  } finally {
    if (outcome !== 'stored') await abort(bucket, job.key, target);
  }
  return outcome;
}

async function begin(bucket: Bucket, { key, meta, signal }: MultipartJob): Promise<MultipartTarget> {
  const target = { Bucket: bucket.name, Key: bucket.prefix + key };
  return request(bucket, { operation: 'CreateMultipartUpload', key, signal }, async (client, http) => {
    const begun = await client.send(
      new CreateMultipartUploadCommand({ ...target, Metadata: { ...meta } }),
      http,
    );
    return { ...target, UploadId: promised(begun.UploadId, 'UploadId') };
  });
}

async function complete(
  bucket: Bucket,
  { key, ifAbsent, signal, onFailure }: MultipartJob,
  target: MultipartTarget,
  parts: readonly CompletedPart[],
): Promise<PutOutcome> {
  const input = {
    ...target,
    MultipartUpload: { Parts: [...parts] },
    IfNoneMatch: ifAbsent === true ? '*' : undefined,
  };
  const ask = { operation: 'CompleteMultipartUpload' as const, key, signal, onFailure };
  return request(bucket, ask, async (client, http): Promise<PutOutcome> => {
    reached('s3.before-complete');
    const answer = await client.send(new CompleteMultipartUploadCommand(input), http);
    reached('s3.after-complete');
    // Ceph RGW leaves it empty when two uploads of one key are completed at once: nobody knows yet whose it is.
    promised(answer.ETag, 'ETag');
    return 'stored';
  });
}

/** The error that led here is the one to report. */
async function abort(bucket: Bucket, key: string, target: MultipartTarget): Promise<void> {
  const ask = { operation: 'AbortMultipartUpload' as const, key, budgetMs: ABORT_BUDGET_MS };
  await request(bucket, ask, (client, http) =>
    client.send(new AbortMultipartUploadCommand(target), http),
  ).catch(() => undefined);
}
