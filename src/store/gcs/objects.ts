// Reads, lists and deletes objects. Whole objects and their metadata come from the XML API, which has both in one
// answer; listings from the JSON API. No other key than the given ones is touched.
import { forEachAtOnce } from '../../model/waiting.ts';
import {
  type GetOptions,
  type GotObject,
  type ListedObject,
  type ObjectHead,
  StoreError,
} from '../contract/store.ts';
import { beginObject, drained, lengthOf, NotFromStore, promised, restOf, textOf } from '../http/body.ts';
import type { Answer } from '../http/transport.ts';
import { type Bucket, objectPath, request, type RequestOptions, resourcePath } from './bucket.ts';
import type { Failure } from './failure.ts';

/** A look at an object, with what its bytes are. */
export interface Found extends ObjectHead {
  /** In hex. Undefined for an object that was composed of others. */
  readonly md5: string | undefined;
}

interface LookOptions {
  readonly signal?: AbortSignal | undefined;
  /** Replaces the bucket's budget: 0 is one try. */
  readonly budgetMs?: number;
}

/** The result of HEAD, or undefined if the object does not exist. */
export async function look(bucket: Bucket, key: string, options: LookOptions): Promise<Found | undefined> {
  const ask = { operation: 'get' as const, key, ...options, onFailure: absent };
  const found = await request(bucket, ask, async (send) => {
    const answer = await send({ method: 'HEAD', path: objectPath(bucket, key) });
    await drained(answer);
    return { ...described(answer), key, sizeBytes: lengthOf(answer) ?? 0, md5: md5In(answer) };
  });
  return found === 'absent' ? undefined : found;
}

export async function headObject(
  bucket: Bucket,
  key: string,
  signal: AbortSignal | undefined,
): Promise<ObjectHead | undefined> {
  const found = await look(bucket, key, { signal });
  if (found === undefined) return undefined;
  const { md5: _, ...head } = found;
  return head;
}

/** The object and its bytes, or undefined if it does not exist. */
export async function getObject(
  bucket: Bucket,
  key: string,
  options: GetOptions,
): Promise<GotObject | undefined> {
  const { range, signal } = options;
  const headers = range === undefined ? undefined : { range: `bytes=${range.first}-${range.last}` };
  const ask = { operation: 'get' as const, key, signal, onFailure: absent };
  const found = await request(bucket, ask, async (send) => {
    const answer = await send({ path: objectPath(bucket, key), headers });
    try {
      return { ...described(answer), key, begun: await beginObject(answer, options) };
    } catch (error) {
      answer.body.destroy();
      throw error;
    }
  });
  if (found === 'absent') return undefined;
  const { begun, ...head } = found;
  const hint =
    'check HTTPS_PROXY and STORAGE_EMULATOR_HOST: what answers there sends other bytes than were asked for';
  return { ...head, ...restOf(begun, { range, signal, what: `get ${bucket.url}/${key}`, hint }) };
}

const META = 'x-goog-meta-';

/** An answer without a generation is no object: a gateway has answered. */
function described({ headers }: Answer): Pick<ObjectHead, 'tag' | 'meta' | 'modifiedMs'> {
  const meta = Object.entries(headers)
    .filter(([name]) => name.startsWith(META))
    .map(([name, value]) => [name.slice(META.length), String(value)] as const);
  return {
    tag: generationIn({ headers }),
    meta: Object.fromEntries(meta),
    modifiedMs: instantOf(headers['last-modified']),
  };
}

export function generationIn({ headers }: Pick<Answer, 'headers'>): string {
  const told = headers['x-goog-generation'];
  return promised(typeof told === 'string' ? told : undefined, 'x-goog-generation');
}

/** `x-goog-hash: crc32c=...,md5=...`, in one header or two. */
export function md5In({ headers }: Pick<Answer, 'headers'>): string | undefined {
  return hexOf(/\bmd5=([\w+/]+=*)/.exec(String(headers['x-goog-hash'] ?? ''))?.[1]);
}

/** The store gives an md5 in base64. */
export function hexOf(md5: string | undefined): string | undefined {
  return md5 === undefined ? undefined : Buffer.from(md5, 'base64').toString('hex');
}

/** A header has an HTTP date, a listing an ISO one. */
function instantOf(date: string | undefined): number | undefined {
  const ms = Date.parse(date ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}

/** HEAD's 404 has no body, so a missing bucket looks the same. The first write will report it. */
async function absent({ status, code }: Failure): Promise<'absent' | undefined> {
  return status === 404 && code !== 'NoSuchBucket' ? 'absent' : undefined;
}

/** A page of a listing, as far as its fields were asked for. */
interface Page {
  readonly items?: readonly Item[];
  readonly prefixes?: readonly string[];
  readonly nextPageToken?: string;
}

interface Item {
  readonly name: string;
  /** Some servers leave it out if it is 0. */
  readonly size?: string;
  readonly updated?: string;
  readonly md5Hash?: string;
}

/** An answer of the JSON API: the object of a text, or an error that something else has answered. */
export function resourceIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const told: unknown = JSON.parse(text);
    if (typeof told === 'object' && told !== null) return told as Readonly<Record<string, unknown>>;
  } catch {
    // Not JSON.
  }
  throw new NotFromStore('JSON');
}

/** All objects below a prefix, in byte order, in pages of 1,000. */
export async function* listObjects(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  const ask = { operation: 'list' as const, key: prefix, signal };
  const fields = 'items(name,size,updated,md5Hash),nextPageToken';
  let newest: Buffer = Buffer.alloc(0);
  for (let token = ''; ;) {
    const { items = [], nextPageToken = '' } = await pageOf(bucket, ask, { fields, pageToken: token });
    for (const { name, size = '0', updated, md5Hash } of items) {
      const key = Buffer.from(name);
      // Commands merge listings, so another order would hide objects.
      if (Buffer.compare(key, newest) <= 0)
        throw refused(bucket, ask, 'the keys of the listing do not ascend');
      newest = key;
      yield {
        key: name.slice(bucket.prefix.length),
        sizeBytes: Number(size),
        modifiedMs: instantOf(updated),
        md5: hexOf(md5Hash),
      };
    }
    if (nextPageToken === '') return;
    if (nextPageToken === token) throw refused(bucket, ask, 'the listing has no end');
    token = nextPageToken;
  }
}

/** Names of the folders directly below a prefix, from the first page that has some. */
export async function listFolders(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const ask = { operation: 'list' as const, key: prefix, signal };
  const query = { delimiter: '/', fields: 'prefixes,nextPageToken' };
  for (let pageToken = ''; ;) {
    const { prefixes = [], nextPageToken = '' } = await pageOf(bucket, ask, { ...query, pageToken });
    if (prefixes.length > 0 || nextPageToken === '')
      return prefixes.map((whole) => whole.slice(bucket.prefix.length + prefix.length, -1));
    if (nextPageToken === pageToken) throw refused(bucket, ask, 'the listing has no end');
    pageToken = nextPageToken;
  }
}

async function pageOf(
  bucket: Bucket,
  ask: RequestOptions<never>,
  query: Readonly<Record<string, string>>,
): Promise<Page> {
  const prefix = bucket.prefix + ask.key;
  return request(bucket, ask, async (send) => {
    const whole = { prefix, maxResults: '1000', ...query };
    const page = resourceIn(await textOf(await send({ path: resourcePath(bucket), query: whole }))) as Page;
    const names = [...(page.items ?? []).map(({ name }) => name), ...(page.prefixes ?? [])];
    if (names.every((name) => name.startsWith(prefix))) return page;
    throw new NotFromStore('keys that were asked for');
  });
}

function refused(bucket: Bucket, { key }: RequestOptions<never>, why: string): StoreError {
  return new StoreError('refused', `list gs://${bucket.name}/${bucket.prefix}${key}: ${why}`, {
    hint: 'check HTTPS_PROXY and STORAGE_EMULATOR_HOST: what answers there does not list as Cloud Storage does',
  });
}

const DELETED_AT_ONCE = 4;

export async function deleteObjects(
  bucket: Bucket,
  keys: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  await forEachAtOnce(keys, DELETED_AT_ONCE, (key) => deleteObject(bucket, key, { signal }));
}

export interface DeleteOptions extends LookOptions {
  /** Deletes only this state of the object. Another one is no error. */
  readonly tag?: string;
}

export async function deleteObject(
  bucket: Bucket,
  key: string,
  { tag, ...options }: DeleteOptions,
): Promise<void> {
  const onFailure = async (failure: Failure): Promise<'gone' | undefined> =>
    (await absent(failure)) === 'absent' || (tag !== undefined && failure.status === 412)
      ? 'gone'
      : undefined;
  const query: Record<string, string> = tag === undefined ? {} : { ifGenerationMatch: tag };
  await request(bucket, { operation: 'delete', key, ...options, onFailure }, async (send) => {
    const answer = await send({ method: 'DELETE', path: resourcePath(bucket, key), query });
    await drained(answer);
    // Any gateway may answer 200.
    if (answer.status !== 204) throw new NotFromStore('effect');
  });
}
