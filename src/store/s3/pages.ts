// Reads listings page by page. Each page must lead further, so that a listing ends whatever server answers.
import { StoreError } from '../contract/store.ts';
import { NotFromS3, xmlOf, type Xml } from './answer.ts';
import { request, type Bucket, type RequestOptions } from './bucket.ts';
import { isDirectory } from './url.ts';

type Query = Readonly<Record<string, string>>;

export interface Listing<Instead extends string> extends RequestOptions<Instead> {
  /** Sent with the request of every page. */
  readonly query: Query;
  /** The element that a page lists, and the name of the key in it. */
  readonly lists: readonly [element: string, key: string];
  /** Keys must ascend strictly, also within a page. */
  readonly ascends: boolean;
  /** Where the next page begins. Undefined after the last page. */
  readonly next: (page: Xml) => Query | undefined;
}

/** A page may be empty, and one key may have several pages of uploads. */
const MOST_IDLE_PAGES = 100;

/** Returns the value of `onFailure` if it replaces a page. Throws `refused` if the pages lead no further. */
export async function* pagesOf<Instead extends string = never>(
  bucket: Bucket,
  { query, lists: [element, name], ascends, next, ...ask }: Listing<Instead>,
): AsyncGenerator<Xml, Instead | undefined> {
  // A directory bucket lists in no order.
  const isOrdered = !isDirectory(bucket.name);
  const whole = { prefix: listedPrefix(bucket, ask.key), 'encoding-type': 'url', ...query };
  let newest: Buffer = Buffer.alloc(0);
  let idlePages = 0;
  let after: Query | undefined = {};
  while (after !== undefined) {
    const from: Query = after;
    const got = await request(bucket, ask, async (send) => {
      const page = await xmlOf(await send({ query: { ...whole, ...from } }));
      const following = next(page);
      if (following !== undefined && isSame(following, from)) throw new NotFromS3('next page');
      const keys = page.all(element).map((one) => Buffer.from(decodedKey(one.text(name) ?? '')));
      let last = newest;
      let isOutOfOrder = false;
      for (const key of keys) {
        if (Buffer.compare(key, last) > 0) last = key;
        else isOutOfOrder = isOrdered;
      }
      return { page, following, last, isIdle: isOrdered ? last === newest : keys.length === 0, isOutOfOrder };
    });
    if (typeof got === 'string') return got;
    if (ascends && got.isOutOfOrder) throw unordered(bucket, ask);
    yield got.page;
    idlePages = got.isIdle ? idlePages + 1 : 0;
    newest = got.last;
    after = got.following;
    if (after !== undefined && idlePages === MOST_IDLE_PAGES) throw endless(bucket, ask);
  }
  return undefined;
}

function isSame(one: Query, other: Query): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

function endless(bucket: Bucket, ask: RequestOptions<string>): StoreError {
  const what = `${MOST_IDLE_PAGES} pages in a row lead no further`;
  return refused(
    bucket,
    ask,
    what,
    'check AWS_ENDPOINT_URL and HTTPS_PROXY: what answers there lists without end',
  );
}

/** Commands merge listings, so another order would hide objects. */
function unordered(bucket: Bucket, ask: RequestOptions<string>): StoreError {
  const hint =
    'S3 lists keys in the order of their UTF-8 bytes, and capture relies on it: use a store that does so, too';
  return refused(bucket, ask, 'the keys of the listing do not ascend', hint);
}

function refused(
  bucket: Bucket,
  { operation, key }: RequestOptions<string>,
  what: string,
  hint: string,
): StoreError {
  return new StoreError('refused', `${operation} s3://${bucket.name}/${bucket.prefix}${key}: ${what}`, {
    hint,
  });
}

/** A key of a listing with `encoding-type=url`, without the store's prefix. */
export function relativeKey(bucket: Bucket, encoded: string): string {
  return decodedKey(encoded).slice(bucket.prefix.length);
}

/** Keys may contain characters that XML cannot. */
export function decodedKey(encoded: string): string {
  return decodeURIComponent(encoded.replaceAll('+', ' '));
}

/** The prefix of the request. For a directory bucket it must end with a slash, so the listing may contain more. */
function listedPrefix(bucket: Bucket, prefix: string): string {
  const whole = bucket.prefix + prefix;
  return isDirectory(bucket.name) ? whole.slice(0, whole.lastIndexOf('/') + 1) : whole;
}
