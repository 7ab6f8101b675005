// Checks that the store holds the bytes that were sent. Every server checks the signed hash, but a gateway may answer
// in its place, and a disk may lose the bytes. So checksums in the answer are compared. The ETag of a put is the md5 of
// the bytes, except on some servers, and if they are encrypted.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import zlib from 'node:zlib';
import { md5Of } from '../../model/md5.ts';
import { holds } from '../contract/driver.ts';
import { StoreError, type PutOptions } from '../contract/store.ts';
import { ETAG_OF_ONE_PUT } from './answer.ts';
import type { Bucket } from './bucket.ts';
import { getObject } from './objects.ts';

export interface StoredBytes {
  readonly key: string;
  readonly body: Uint8Array;
  readonly options: Pick<PutOptions, 'meta' | 'md5' | 'signal'>;
  readonly headers: IncomingHttpHeaders;
}

/**
 * Throws if the object has other bytes. An ETag with another md5 is no proof: the object is read back. If it is whole,
 * this server's ETags are no md5s and are ignored from then on.
 */
export async function checkIntact(bucket: Bucket, stored: StoredBytes): Promise<void> {
  const does = agrees(bucket, stored);
  if (does === true && bucket.server.etags === 'unknown') bucket.server.etags = 'md5';
  if (does !== false) return;
  const { key, body, options } = stored;
  const got = await getObject(bucket, key, { signal: options.signal });
  if (got !== undefined && (await holds(got.body, body))) {
    bucket.server.etags = 'other';
    return;
  }
  // Another writer has replaced it since, so this put cannot check it.
  if (got === undefined || got.meta['push'] !== options.meta['push']) return;
  throw otherBytes(`PutObject ${bucket.url}/${key}`);
}

/**
 * The same for one part, which cannot be read back. Its ETag counts only if earlier ETags of the server were md5s. A
 * checksum in the answer makes computing the md5 unnecessary.
 */
export function checkPart(bucket: Bucket, key: string, body: Uint8Array, headers: IncomingHttpHeaders): void {
  const hasSum = headers[CRC32] !== undefined;
  if (!hasSum && bucket.server.etags !== 'md5') return;
  if (agrees(bucket, { body, options: {}, headers }) === false)
    throw otherBytes(`UploadPart ${bucket.url}/${key}`);
}

function otherBytes(what: string): StoreError {
  return new StoreError('transient', `${what}: the store holds other bytes than were sent`, {
    hint: 'something between here and the store changes what is sent: check HTTPS_PROXY and the server',
  });
}

/** Undefined if the answer contains no checksum of the bytes. */
function agrees(
  bucket: Bucket,
  {
    body,
    options,
    headers,
  }: Pick<StoredBytes, 'body' | 'headers'> & { readonly options: { readonly md5?: string | undefined } },
): boolean | undefined {
  for (const [name, sumOf] of CHECKSUMS) {
    const told = headers[name];
    // A value with a dash is a checksum of the parts' checksums.
    if (typeof told === 'string' && !told.includes('-')) return told === sumOf(body);
  }
  const [, told] = ETAG_OF_ONE_PUT.exec(headers.etag ?? '') ?? [];
  if (told === undefined || bucket.server.etags === 'other' || isEncrypted(headers)) return undefined;
  return told === (options.md5 ?? md5Of(body));
}

/** https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html: the ETag of an encrypted object is not its md5. */
function isEncrypted(headers: IncomingHttpHeaders): boolean {
  const how = headers['x-amz-server-side-encryption'] ?? 'AES256';
  return how !== 'AES256' || headers['x-amz-server-side-encryption-customer-algorithm'] !== undefined;
}

/** https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html */
export const CRC32 = 'x-amz-checksum-crc32';

export function crc32Of(body: Uint8Array): string {
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(zlib.crc32(body));
  return sum.toString('base64');
}

const CHECKSUMS: readonly (readonly [string, (body: Uint8Array) => string])[] = [
  [CRC32, crc32Of],
  ['x-amz-checksum-sha256', (body) => createHash('sha256').update(body).digest('base64')],
];
