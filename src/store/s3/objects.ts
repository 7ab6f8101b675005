// Objects that are there: HEAD, GET, listings, deletion. A body that breaks off must throw, never look complete; no key
// is touched that was not given.
import type { IncomingHttpHeaders } from 'node:http';
import { forEachAtOnce } from '../../model/waiting.ts';
import { reasonOf } from '../../model/errors.ts';
import { releasing } from '../contract/driver.ts';
import {
  StoreError,
  type GetOptions,
  type GotObject,
  type ListedObject,
  type ObjectHead,
} from '../contract/store.ts';
import { drained, ETAG_OF_ONE_PUT, NotFromS3, promised, tagOf, xmlOf, type Xml } from './answer.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import type { Answer } from './transport.ts';
import { isDirectory } from './url.ts';

/** What HEAD says, or undefined when there is no such object. `budgetMs` 0 is one try. */
export async function headObject(
  bucket: Bucket,
  key: string,
  options: { readonly signal?: AbortSignal | undefined; readonly budgetMs?: number } = {},
): Promise<ObjectHead | undefined> {
  const ask = { operation: 'HeadObject' as const, key, ...options, onFailure: absent };
  const found = await request(bucket, ask, async (send) => {
    const answer = await send();
    await drained(answer);
    return anObject(answer);
  });
  if (found === 'absent') return undefined;
  return { ...described(found.headers), key, sizeBytes: lengthOf(found.headers) };
}

/** The object and its bytes, or undefined when there is none. */
export async function getObject(
  bucket: Bucket,
  key: string,
  options: GetOptions,
): Promise<GotObject | undefined> {
  const { range, signal } = options;
  const headers = range === undefined ? undefined : { range: `bytes=${range.first}-${range.last}` };
  const ask = { operation: 'GetObject' as const, key, signal, onFailure: absent };
  const found = await request(bucket, ask, async (send) => anObject(await send({ headers })));
  if (found === 'absent') return undefined;
  const lengthBytes = lengthOf(found.headers);
  const whole = /\/(\d+)$/.exec(found.headers['content-range'] ?? '')?.[1];
  const read: Reading = { answer: found, lengthBytes, what: `GetObject ${bucket.url}/${key}`, signal };
  return {
    ...described(found.headers),
    key,
    sizeBytes: whole === undefined ? lengthBytes : Number(whole),
    body: releasing(wholeBody(read), async () => {
      found.body.destroy();
    }),
  };
}

const META = 'x-amz-meta-';

function described(headers: IncomingHttpHeaders): Pick<ObjectHead, 'tag' | 'meta' | 'modifiedMs'> {
  const meta = Object.entries(headers)
    .filter(([name]) => name.startsWith(META))
    .map(([name, value]) => [name.slice(META.length), String(value)] as const);
  const modifiedMs = instantOf(headers['last-modified']);
  return { tag: tagOf(headers.etag ?? ''), meta: Object.fromEntries(meta), modifiedMs };
}

/** A header has an HTTP date, a listing an ISO one. */
function instantOf(date: string | undefined): number | undefined {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

function lengthOf(headers: IncomingHttpHeaders): number {
  return Number(headers['content-length'] ?? 0);
}

/** An answer with neither an ETag nor our metadata is no object: some gateway has answered. */
function anObject(answer: Answer): Answer {
  if (answer.headers.etag || Object.keys(answer.headers).some((name) => name.startsWith(META))) return answer;
  answer.body.destroy();
  throw new NotFromS3('ETag');
}

/** HEAD's 404 has no body, so a missing bucket looks the same: the first write will say so. */
async function absent(failure: Failure): Promise<'absent' | undefined> {
  return failure.status === 404 && failure.code !== 'NoSuchBucket' ? 'absent' : undefined;
}

interface Reading {
  readonly answer: Answer;
  readonly lengthBytes: number;
  readonly what: string;
  readonly signal: AbortSignal | undefined;
}

async function* wholeBody({ answer, lengthBytes, what, signal }: Reading): AsyncGenerator<Uint8Array> {
  let seenBytes = 0;
  try {
    for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
      seenBytes += chunk.byteLength;
      yield chunk;
    }
  } catch (error) {
    signal?.throwIfAborted();
    // Node throws here when the connection ends before the promised length (ECONNRESET, aborted).
    const where = `after ${seenBytes} of ${lengthBytes} bytes`;
    throw new StoreError('transient', `${what}: the answer broke off ${where} (${reasonOf(error)})`, {
      cause: error,
    });
  } finally {
    answer.body.destroy();
  }
  signal?.throwIfAborted();
}

/** All objects below a prefix, in byte order. */
export async function* listObjects(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  if (!isDirectory(bucket.name)) return yield* listPages(bucket, prefix, signal);
  // A directory bucket lists in no order.
  const found: (readonly [Buffer, ListedObject])[] = [];
  for await (const object of listPages(bucket, prefix, signal))
    if (object.key.startsWith(prefix)) found.push([Buffer.from(object.key), object]);
  for (const [, object] of found.toSorted(([a], [b]) => Buffer.compare(a, b))) yield object;
}

/** 1,000 a page. */
async function* listPages(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  let after: Readonly<Record<string, string>> | undefined = {};
  let newest: Buffer = Buffer.alloc(0);
  while (after !== undefined) {
    const page: Xml = await listed(bucket, { prefix, signal, query: after, newest });
    const objects = page.all('Contents');
    if (!isDirectory(bucket.name)) newest = bytesOf(objects.at(-1)) ?? newest;
    for (const object of objects) {
      const key = relativeKey(bucket, object.text('Key') ?? '');
      const modifiedMs = instantOf(object.text('LastModified'));
      const [, md5] = ETAG_OF_ONE_PUT.exec(object.text('ETag') ?? '') ?? [];
      yield { key, sizeBytes: Number(object.text('Size') ?? 0), modifiedMs, md5 };
    }
    after = page.text('IsTruncated') === 'true' ? { 'continuation-token': tokenOf(page) } : undefined;
  }
}

function bytesOf(object: Xml | undefined): Buffer | undefined {
  const key = object?.text('Key');
  return key === undefined ? undefined : Buffer.from(decodedKey(key));
}

function tokenOf(page: Xml): string {
  return promised(page.text('NextContinuationToken'), 'NextContinuationToken');
}

/** Names of folders directly below a prefix, of one page: of all pages where they come in no order. */
export async function listFolders(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const found: string[] = [];
  let after: Readonly<Record<string, string>> | undefined = {};
  while (after !== undefined) {
    const page: Xml = await listed(bucket, { prefix, signal, query: { delimiter: '/', ...after } });
    for (const folder of page.all('CommonPrefixes'))
      found.push(relativeKey(bucket, folder.text('Prefix') ?? '').slice(prefix.length, -1));
    if (!isDirectory(bucket.name)) return found;
    after = page.text('IsTruncated') === 'true' ? { 'continuation-token': tokenOf(page) } : undefined;
  }
  return found.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).slice(0, 1000);
}

interface Listing {
  readonly prefix: string;
  readonly query: Readonly<Record<string, string>>;
  /** The last key of the page before. */
  readonly newest?: Buffer;
  readonly signal: AbortSignal | undefined;
}

async function listed(bucket: Bucket, { prefix, query, newest, signal }: Listing): Promise<Xml> {
  return request(bucket, { operation: 'ListObjectsV2', key: prefix, signal }, async (send) => {
    // Keys may hold characters that XML cannot.
    const whole = listedPrefix(bucket, prefix);
    const encoded = { 'list-type': '2', prefix: whole, 'encoding-type': 'url', ...query };
    const page = await xmlOf(await send({ query: encoded }));
    // A page of HTML reads as an empty listing: as if nothing had ever been stored.
    const isTruncated = promised(page.text('IsTruncated'), 'IsTruncated') === 'true';
    // Without its token the rest would read as not there; with the token of this very page it never ends.
    if (isTruncated && tokenOf(page) === query['continuation-token']) throw new NotFromS3('next token');
    // Keys ascend: with tokens that lead in a circle it would never end.
    const first = bytesOf(page.all('Contents')[0]);
    if (newest !== undefined && first !== undefined && Buffer.compare(first, newest) <= 0)
      throw new NotFromS3('next keys');
    return page;
  });
}

/** A key of a listing with `encoding-type=url`, without the store's prefix. */
export function relativeKey(bucket: Bucket, encoded: string): string {
  return decodedKey(encoded).slice(bucket.prefix.length);
}

export function decodedKey(encoded: string): string {
  return decodeURIComponent(encoded.replaceAll('+', ' '));
}

/** What a listing is asked for: of a directory bucket it must end in a slash, and what is beside it comes, too. */
export function listedPrefix(bucket: Bucket, prefix: string): string {
  const whole = bucket.prefix + prefix;
  return isDirectory(bucket.name) ? whole.slice(0, whole.lastIndexOf('/') + 1) : whole;
}

const DELETED_AT_ONCE = 4;

/**
 * One DeleteObject for each key: retention deletes a handful at a time, and unlike DeleteObjects this needs no
 * Content-MD5, has no errors hidden in a good answer, and is there on every server.
 */
export async function deleteObjects(
  bucket: Bucket,
  keys: readonly string[],
  options: DeleteOptions = {},
): Promise<void> {
  await forEachAtOnce(keys, DELETED_AT_ONCE, (key) => deleteObject(bucket, key, options));
}

interface DeleteOptions {
  readonly signal?: AbortSignal | undefined;
  /** Of each request, instead of the bucket's. */
  readonly budgetMs?: number;
}

async function deleteObject(bucket: Bucket, key: string, { signal, budgetMs }: DeleteOptions): Promise<void> {
  // Some servers answer 404 where S3 says 204.
  const onFailure = async (failure: Failure): Promise<'gone' | undefined> =>
    failure.status === 404 && failure.code !== 'NoSuchBucket' ? 'gone' : undefined;
  const ask = { operation: 'DeleteObject' as const, key, signal, budgetMs, onFailure };
  await request(bucket, ask, async (send) => {
    const answer = await send();
    await drained(answer);
    if (answer.status === 204) return;
    // Only S3 says 204; anything may say 200.
    if ((await headObject(bucket, key, { signal, budgetMs: 0 })) !== undefined) throw new NotFromS3('effect');
  });
}
