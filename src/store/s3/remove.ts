// Deleting from S3: objects, and the parts of uploads that were interrupted. Neither touches a key that it
// was not given.
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
} from '@aws-sdk/client-s3';
import { forEachAtOnce } from '../../model/waiting.ts';
import { type Bucket, request } from './bucket.ts';
import { type Failure, NotFromS3 } from './failure.ts';
import { headObject, relativeKey } from './read.ts';

const AT_ONCE = 4;

/**
 * One DeleteObject for each key: retention deletes a handful at a time, and unlike DeleteObjects this needs no
 * Content-MD5, has no errors hidden in a good answer, and is there on every server.
 */
export async function deleteObjects(
  bucket: Bucket,
  keys: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  await forEachAtOnce(keys, AT_ONCE, (key) => deleteObject(bucket, key, signal));
}

async function deleteObject(bucket: Bucket, key: string, signal: AbortSignal | undefined): Promise<void> {
  // Some servers answer 404 where S3 says 204.
  const onFailure = async (failure: Failure): Promise<'gone' | undefined> =>
    failure.status === 404 && failure.code !== 'NoSuchBucket' ? 'gone' : undefined;
  await request(bucket, { operation: 'DeleteObject', key, signal, onFailure }, async (client, http) => {
    const target = { Bucket: bucket.name, Key: bucket.prefix + key };
    const { $metadata } = await client.send(new DeleteObjectCommand(target), http);
    if ($metadata.httpStatusCode === 204) return;
    // Only S3 says 204; anything may say 200.
    if ((await headObject(bucket, key, { signal, budgetMs: 0 })) !== undefined) throw new NotFromS3('effect');
  });
}

/**
 * Aborts the uploads of keys that are `mine`. Servers without the operation (501, 405) and credentials without
 * the right (403) are passed over in silence: the parts then wait for the bucket's lifecycle rule, as they
 * would without us.
 */
export async function sweepUploads(
  bucket: Bucket,
  prefix: string,
  mine: (key: string) => boolean,
  signal?: AbortSignal,
): Promise<void> {
  for await (const { Key, UploadId, key } of pendingUploads(bucket, prefix, signal)) {
    if (!mine(key)) continue;
    const gone = async (failure: Failure): Promise<'gone' | undefined> =>
      failure.status === 404 || isUnsupported(failure) ? 'gone' : undefined;
    await request(
      bucket,
      { operation: 'AbortMultipartUpload', key, signal, onFailure: gone },
      (client, http) =>
        client.send(new AbortMultipartUploadCommand({ Bucket: bucket.name, Key, UploadId }), http),
    );
  }
}

interface PendingUpload {
  readonly Key: string;
  readonly UploadId: string | undefined;
  /** Without the store's prefix. */
  readonly key: string;
}

async function* pendingUploads(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<PendingUpload> {
  const onFailure = async (failure: Failure): Promise<'unsupported' | undefined> =>
    isUnsupported(failure) ? 'unsupported' : undefined;
  let after: { readonly KeyMarker?: string; readonly UploadIdMarker?: string } = {};
  for (;;) {
    const input = { Bucket: bucket.name, Prefix: bucket.prefix + prefix, ...after };
    const page = await request(
      bucket,
      { operation: 'ListMultipartUploads', key: prefix, signal, onFailure },
      (client, http): Promise<ListMultipartUploadsCommandOutput> =>
        client.send(new ListMultipartUploadsCommand({ ...input, EncodingType: 'url' }), http),
    );
    if (page === 'unsupported') return;
    for (const { Key = '', UploadId } of page.Uploads ?? []) {
      const key = relativeKey(bucket, Key);
      yield { Key: bucket.prefix + key, UploadId, key };
    }
    if (page.IsTruncated !== true || page.NextKeyMarker === undefined) return;
    after = {
      KeyMarker: bucket.prefix + relativeKey(bucket, page.NextKeyMarker),
      UploadIdMarker: page.NextUploadIdMarker,
    };
  }
}

function isUnsupported({ status }: Failure): boolean {
  return status === 501 || status === 405 || status === 403;
}
