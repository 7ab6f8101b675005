// Does the store hold the bytes that were sent? Every server checks the hash that is signed with them, but something
// between may answer in its place, and a disk may lose them. So what an answer says of the bytes is compared with them,
// where it says anything: the ETag of a put is their md5, except on some servers and where they are encrypted.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import zlib from 'node:zlib';
import { md5Of } from '../../model/md5.ts';
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
 * Throws if the object holds other bytes. An ETag that is another md5 proves nothing by itself: the object is read back,
 * and if it is whole, the ETags of this server are no md5 and are not looked at again.
 */
export async function checkIntact(bucket: Bucket, stored: StoredBytes): Promise<void> {
  const does = agrees(bucket, stored);
  if (does === true && bucket.server.etags === 'unknown') bucket.server.etags = 'md5';
  if (does !== false) return;
  const { key, body, options } = stored;
  const got = await getObject(bucket, key, { signal: options.signal });
  const chunks: Uint8Array[] = [];
  for await (const chunk of got?.body ?? []) chunks.push(chunk);
  if (got !== undefined && Buffer.concat(chunks).equals(body)) {
    bucket.server.etags = 'other';
    return;
  }
  // Replaced by another since: that is not for this put to judge.
  if (got === undefined || got.meta['push'] !== options.meta['push']) return;
  throw otherBytes(`PutObject ${bucket.url}/${key}`);
}

/**
 * The same of one part, which cannot be read back: an ETag counts only on a server whose ETags have been md5s before. An
 * answer with a checksum spares computing the md5.
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

/** Undefined: the answer says nothing of the bytes. */
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
    // With a number of parts it is of their checksums.
    if (typeof told === 'string' && !told.includes('-')) return told === sumOf(body);
  }
  const [, told] = ETAG_OF_ONE_PUT.exec(headers.etag ?? '') ?? [];
  if (told === undefined || bucket.server.etags === 'other' || isEncrypted(headers)) return undefined;
  return told === (options.md5 ?? md5Of(body));
}

/** https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html: then the ETag is not an md5 of the bytes. */
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
