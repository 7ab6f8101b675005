// The options of new objects: encryption, storage class, tags; and who pays for requests. https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html
import { OBJECT_OPTIONS } from './url.ts';

/** As parameters of the AWS SDK. */
export interface ObjectParams {
  readonly ServerSideEncryption?: 'AES256' | 'aws:kms';
  readonly SSEKMSKeyId?: string;
  readonly StorageClass?: string;
  /** As a query: `project=melt&owner=ada`. */
  readonly Tagging?: string;
  readonly RequestPayer?: 'requester';
}

/** Amazon bills 128 KiB for each smaller object of the classes for rare access, and records are smaller. */
const LEAST_BILLED_BYTES = 128 * 2 ** 10;

/** `flags`: those of the settings, `sse=kms` and the like. */
export function objectParams(flags: readonly string[]): ObjectParams {
  const valuesOf = (name: string): readonly string[] =>
    flags.filter((flag) => flag.startsWith(`${name}=`)).map((flag) => flag.slice(name.length + 1));
  const [sse] = valuesOf(OBJECT_OPTIONS.sse);
  const [storageClass] = valuesOf(OBJECT_OPTIONS.storageClass);
  const tags = valuesOf(OBJECT_OPTIONS.tag).map((tag) => tag.split(/=(.*)/s, 2) as [string, string]);
  const keyId = sse?.startsWith('kms:') ? sse.slice('kms:'.length) : undefined;
  return {
    ...(sse === undefined ? {} : { ServerSideEncryption: sse === 'aes256' ? 'AES256' : 'aws:kms' }),
    ...(keyId === undefined ? {} : { SSEKMSKeyId: keyId }),
    ...(storageClass === undefined ? {} : { StorageClass: storageClass }),
    ...(tags.length === 0 ? {} : { Tagging: new URLSearchParams(tags).toString() }),
    ...(flags.includes(OBJECT_OPTIONS.requestPayer) ? { RequestPayer: 'requester' } : {}),
  };
}

/** The headers that they add to a request. `sizeBytes`: of the body of a PutObject. */
export function objectHeaders(
  params: ObjectParams,
  operation: string,
  sizeBytes: number,
): Record<string, string> {
  const { ServerSideEncryption: sse, SSEKMSKeyId: keyId, StorageClass, Tagging, RequestPayer } = params;
  const isPut = operation === 'PutObject';
  const makes = isPut || operation === 'CreateMultipartUpload' || operation === 'CopyObject';
  const isLarge = !isPut || sizeBytes >= LEAST_BILLED_BYTES;
  return {
    ...(RequestPayer === undefined ? {} : { 'x-amz-request-payer': RequestPayer }),
    ...(makes && sse !== undefined ? { 'x-amz-server-side-encryption': sse } : {}),
    ...(makes && keyId !== undefined ? { 'x-amz-server-side-encryption-aws-kms-key-id': keyId } : {}),
    ...(makes && isLarge && StorageClass !== undefined ? { 'x-amz-storage-class': StorageClass } : {}),
    // A copy has the tags of its source.
    ...(makes && operation !== 'CopyObject' && Tagging !== undefined ? { 'x-amz-tagging': Tagging } : {}),
  };
}
