// Checks that the store holds the bytes that were sent. Every server checks the signed hash, but a gateway may answer
// in its place, and a disk may lose the bytes. So checksums in the answer are compared. The ETag of a put is the md5 of
// the bytes, except on some servers, and if they are encrypted. That of an upload is the md5 of its parts' md5s, and
// their number. A success with another ETag is not believed: the object itself decides, before anything is deleted.
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import zlib from 'node:zlib';
import { md5Of, newMd5 } from '../../model/md5.ts';
import { holds } from '../contract/driver.ts';
import { StoreError, type ObjectMeta, type PutOptions } from '../contract/store.ts';
import { ETAG_OF_ONE_PUT, tagOf } from './answer.ts';
import type { Bucket } from './bucket.ts';
import { getObject, headObject } from './objects.ts';

export interface StoredBytes {
  readonly key: string;
  readonly body: Uint8Array;
  readonly options: Pick<PutOptions, 'meta' | 'md5' | 'signal'>;
  readonly headers: IncomingHttpHeaders;
}

/** A part that is stored. */
export interface StoredPart {
  /** From 1. */
  readonly number: number;
  readonly etag: string;
  readonly sizeBytes: number;
  /** As the server reported it. */
  readonly crc32?: string | undefined;
}

/** The success of a completion or a copy. */
export interface Claim {
  readonly operation: 'CompleteMultipartUpload' | 'CopyObject';
  readonly key: string;
  readonly tag: string;
  readonly headers: IncomingHttpHeaders;
  /** The tag that proves it. */
  readonly expected: string;
  readonly sizeBytes: number;
  readonly meta: ObjectMeta;
  readonly signal?: AbortSignal | undefined;
  /** Compares a body that is read back; undefined if no md5 of it is known. */
  readonly isWhole: ((body: AsyncIterable<Uint8Array>) => Promise<boolean>) | undefined;
}

/**
 * Throws if the object is not what was meant. If the tag is not the expected one, the object's size decides. If both
 * tags have the same form, its bytes decide. If they are whole, this server makes the tags of this operation in another
 * way, and from then on only sizes are compared.
 */
export async function checkClaim(bucket: Bucket, claim: Claim): Promise<void> {
  const { operation, key, tag, headers, expected, sizeBytes, meta, signal, isWhole } = claim;
  const { etags, otherTags } = bucket.server;
  if (tag === expected) return;
  const isMd5 = etags === 'md5' && !isEncrypted(headers);
  const [parts, expectedParts] = [partsOf(tag), partsOf(expected)];
  // Each has a number of parts, whatever its md5 is.
  const isMiscounted = parts > 0 && expectedParts > 0 && parts !== expectedParts;
  if (!isMd5 && !isMiscounted) return;
  const there = await headObject(bucket, key, { signal });
  const what = `${operation} ${bucket.url}/${key}`;
  if (there?.meta['push'] !== meta['push'] || there?.sizeBytes !== sizeBytes) throw otherBytes(what);
  if (there.tag === expected || parts !== expectedParts || !isMd5 || otherTags.has(operation)) return;
  if (isWhole === undefined || sizeBytes === 0) return;
  const got = await getObject(bucket, key, { signal });
  if (got === undefined || !(await isWhole(got.body))) throw otherBytes(what);
  otherTags.add(operation);
}

/** The number of parts in a tag: 0 for one put, -1 if it contains no md5. */
function partsOf(tag: string): number {
  const found = /^[0-9a-f]{32}(?:-(\d+))?$/.exec(tag);
  return found === null ? -1 : Number(found[1] ?? 0);
}

/** The claim that these parts are joined. */
export function claimOfParts(
  parts: readonly StoredPart[],
): Pick<Claim, 'operation' | 'expected' | 'sizeBytes' | 'isWhole'> {
  return {
    operation: 'CompleteMultipartUpload',
    expected: tagOfParts(parts),
    sizeBytes: parts.reduce((sum, part) => sum + part.sizeBytes, 0),
    isWhole: parts.every(({ etag }) => ETAG_OF_ONE_PUT.test(etag))
      ? (body) => holdsParts(body, parts)
      : undefined,
  };
}

/** The tag of an upload of these parts. */
export function tagOfParts(parts: readonly Pick<StoredPart, 'etag'>[]): string {
  const digests = parts.map(({ etag }) => ETAG_OF_ONE_PUT.exec(etag)?.[1] ?? '');
  return `${md5Of(Buffer.from(digests.join(''), 'hex'))}-${parts.length}`;
}

/** True if a body consists of these parts. */
async function holdsParts(body: AsyncIterable<Uint8Array>, parts: readonly StoredPart[]): Promise<boolean> {
  let at = 0;
  let leftBytes = parts[0]?.sizeBytes ?? 0;
  let md5 = newMd5();
  for await (const chunk of body) {
    for (let rest = chunk; rest.length > 0;) {
      const part = rest.subarray(0, leftBytes);
      if (part.length === 0) return false;
      md5.update(part);
      rest = rest.subarray(part.length);
      leftBytes -= part.length;
      if (leftBytes > 0) continue;
      if (tagOf(parts[at]?.etag ?? '') !== md5.digest()) return false;
      at += 1;
      leftBytes = parts[at]?.sizeBytes ?? 0;
      md5 = newMd5();
    }
  }
  return at === parts.length;
}

export async function md5OfBody(body: AsyncIterable<Uint8Array>): Promise<string> {
  const md5 = newMd5();
  for await (const chunk of body) md5.update(chunk);
  return md5.digest();
}

/**
 * The same for a put. If the object is whole although its ETag has another md5, this server's ETags are no md5s and are
 * ignored from then on.
 */
export async function checkIntact(bucket: Bucket, stored: StoredBytes): Promise<void> {
  const { key, body, options, headers } = stored;
  const tagFits = agreesByTag(bucket, headers, () => options.md5 ?? md5Of(body));
  if (tagFits === true && bucket.server.etags === 'unknown') bucket.server.etags = 'md5';
  if (tagFits !== false && agreesBySum(headers, body) !== false) return;
  const got = await getObject(bucket, key, { aheadBytes: body.byteLength, signal: options.signal });
  if (got !== undefined && (await holds(got.body, body))) {
    if (tagFits === false) bucket.server.etags = 'other';
    return;
  }
  // Another push has replaced it since, so this put cannot check it. Without a push id it may be this very put's.
  const push = got?.meta['push'];
  if (push !== undefined && push !== options.meta['push']) return;
  throw otherBytes(`PutObject ${bucket.url}/${key}`);
}

/**
 * The same for one part, which cannot be read back. Its ETag counts only if earlier ETags of the server were md5s. A
 * checksum that the server is known to compute makes computing the md5 unnecessary.
 */
export function checkPart(bucket: Bucket, key: string, body: Uint8Array, headers: IncomingHttpHeaders): void {
  const { etags, sums } = bucket.server;
  const sumFits = agreesBySum(headers, body);
  const isProven = sumFits === true && sums === 'computed';
  const tagFits = isProven || etags !== 'md5' ? undefined : agreesByTag(bucket, headers, () => md5Of(body));
  if (sumFits === false || tagFits === false) throw otherBytes(`UploadPart ${bucket.url}/${key}`);
}

function otherBytes(what: string): StoreError {
  return new StoreError('transient', `${what}: the store holds other bytes than were sent`, {
    hint: 'something between here and the store changes what is sent: check HTTPS_PROXY and the server',
  });
}

/** Whether all checksums in an answer fit; undefined if it contains none. A gateway may only repeat what was sent. */
function agreesBySum(headers: IncomingHttpHeaders, body: Uint8Array): boolean | undefined {
  let fits: boolean | undefined;
  for (const [name, sumOf] of CHECKSUMS) {
    const told = headers[name];
    // A value with a dash is a checksum of the parts' checksums.
    if (typeof told !== 'string' || told.includes('-')) continue;
    if (told !== sumOf(body)) return false;
    fits = true;
  }
  return fits;
}

/** Whether the ETag of an answer fits; undefined if it is not known to be an md5. */
function agreesByTag(bucket: Bucket, headers: IncomingHttpHeaders, md5: () => string): boolean | undefined {
  const [, told] = ETAG_OF_ONE_PUT.exec(headers.etag ?? '') ?? [];
  if (told === undefined || bucket.server.etags === 'other' || isEncrypted(headers)) return undefined;
  return told === md5();
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
