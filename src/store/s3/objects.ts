// Reads, lists and deletes objects: HEAD, GET, listings, DELETE. A body that breaks off must throw, never look
// complete. No other key than the given ones is touched.
import type { IncomingHttpHeaders } from 'node:http';
import { forEachAtOnce } from '../../model/waiting.ts';
import { fittingInHeap } from '../../native/heap.ts';
import { type GetOptions, type GotObject, type ListedObject, type ObjectHead } from '../contract/store.ts';
import { ETAG_OF_ONE_PUT, tagOf, type Xml } from './answer.ts';
import { beginObject, drained, lengthOf, NotFromStore, promised, restOf } from '../http/body.ts';
import { request, type Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { type Entry, type Listing, pagesOf } from './pages.ts';
import type { Answer } from '../http/transport.ts';
import { isDirectory } from './url.ts';

/** The result of HEAD, or undefined if the object does not exist. `budgetMs` 0 is one try. */
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
  return { ...described(found.headers), key, sizeBytes: lengthOf(found) ?? 0 };
}

/** The object and its bytes, or undefined if it does not exist. */
export async function getObject(
  bucket: Bucket,
  key: string,
  options: GetOptions,
): Promise<GotObject | undefined> {
  const { range, signal } = options;
  const headers = range === undefined ? undefined : { range: `bytes=${range.first}-${range.last}` };
  const ask = { operation: 'GetObject' as const, key, signal, onFailure: absent };
  const found = await request(bucket, ask, async (send) =>
    beginObject(anObject(await send({ headers })), options),
  );
  if (found === 'absent') return undefined;
  const reading = { range, signal, what: `GetObject ${bucket.url}/${key}`, hint: OTHER_BYTES };
  return { ...described(found.answer.headers), key, ...restOf(found, reading) };
}

const OTHER_BYTES =
  'check AWS_ENDPOINT_URL and HTTPS_PROXY: what answers there sends other bytes than were asked for';

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

/** An answer with neither an ETag nor our metadata is no object: a gateway has answered. */
function anObject(answer: Answer): Answer {
  if (answer.headers.etag || Object.keys(answer.headers).some((name) => name.startsWith(META))) return answer;
  answer.body.destroy();
  throw new NotFromStore('ETag');
}

function isMissing({ kind, code }: Failure): boolean {
  return kind === 'missing' && code !== 'NoSuchBucket';
}

/** HEAD's 404 has no body, so a missing bucket looks the same. The first write will report it. */
async function absent(failure: Failure): Promise<'absent' | undefined> {
  return isMissing(failure) ? 'absent' : undefined;
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
  for await (const object of kept(bucket, listPages(bucket, prefix, signal)))
    if (object.key.startsWith(prefix)) found.push([Buffer.from(object.key), object]);
  for (const [, object] of found.toSorted(([a], [b]) => Buffer.compare(a, b))) yield object;
}

/** 1,000 keys per page. */
async function* listPages(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  for await (const page of listed(bucket, { prefix, signal, lists: ['Contents', 'Key'] })) {
    for (const { key, xml } of page) {
      const modifiedMs = instantOf(xml.text('LastModified'));
      const [, md5] = ETAG_OF_ONE_PUT.exec(xml.text('ETag') ?? '') ?? [];
      yield { key, sizeBytes: Number(xml.text('Size') ?? 0), modifiedMs, md5 };
    }
  }
}

/** Names of the folders directly below a prefix, from one page. If they have no order, from all pages. */
export async function listFolders(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const folder of kept(bucket, folderPages(bucket, prefix, signal))) found.push(folder);
  return found.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).slice(0, 1000);
}

async function* folderPages(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  const lists = ['CommonPrefixes', 'Prefix'] as const;
  for await (const page of listed(bucket, { prefix, signal, lists, query: { delimiter: '/' } })) {
    for (const { key } of page) yield key.slice(prefix.length, -1);
    if (!isDirectory(bucket.name)) return;
  }
}

/** A key and what belongs to it, while a listing is sorted in memory. */
const LISTED_BYTES = 400;

function kept<T>(bucket: Bucket, items: AsyncIterable<T>): AsyncGenerator<T> {
  return fittingInHeap(items, LISTED_BYTES, `objects in s3://${bucket.name}`);
}

interface ObjectListing extends Pick<Listing<never>, 'lists' | 'signal'> {
  readonly prefix: string;
  readonly query?: Readonly<Record<string, string>>;
}

function listed(
  bucket: Bucket,
  { prefix, query, ...listing }: ObjectListing,
): AsyncGenerator<readonly Entry[]> {
  return pagesOf(bucket, {
    ...listing,
    operation: 'ListObjectsV2',
    key: prefix,
    query: { 'list-type': '2', ...query },
    ascends: true,
    next: nextObjects,
  });
}

/** Without a token, the rest would look missing. */
function nextObjects(page: Xml): Readonly<Record<string, string>> {
  return { 'continuation-token': promised(page.text('NextContinuationToken'), 'NextContinuationToken') };
}

const DELETED_AT_ONCE = 4;

/**
 * One DeleteObject for each key: retention deletes a handful at a time. Unlike DeleteObjects, it needs no Content-MD5,
 * hides no errors in a successful answer, and exists on every server.
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
  /** Replaces the bucket's budget, for each request. */
  readonly budgetMs?: number;
}

async function deleteObject(bucket: Bucket, key: string, { signal, budgetMs }: DeleteOptions): Promise<void> {
  // Some servers answer 404 where S3 answers 204.
  const onFailure = async (failure: Failure): Promise<'gone' | undefined> =>
    isMissing(failure) ? 'gone' : undefined;
  const ask = { operation: 'DeleteObject' as const, key, signal, budgetMs, onFailure };
  await request(bucket, ask, async (send) => {
    const answer = await send();
    await drained(answer);
    if (answer.status === 204) return;
    // Only S3 answers 204; any gateway may answer 200.
    if ((await headObject(bucket, key, { signal, budgetMs: 0 })) !== undefined)
      throw new NotFromStore('effect');
  });
}
