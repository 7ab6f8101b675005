// Reads listings page by page. Each page must lead further, so that a listing ends whatever server answers. What a page
// leaves open is never guessed.
import { StoreError } from '../contract/store.ts';
import { xmlOf, type Xml } from './answer.ts';
import { NotFromStore, promised } from '../http/body.ts';
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
  /** Where the next page begins. Not called for the last page. */
  readonly next: (page: Xml, plainKey: PlainKey) => Query;
}

/** Gives a key of a page without its encoding. */
type PlainKey = (told: string) => string;

/** An element that a page lists. */
export interface Entry {
  /** Without the store's prefix. */
  readonly key: string;
  readonly xml: Xml;
}

/** A page may be empty, and one key may have several pages of uploads. */
const MOST_IDLE_PAGES = 100;

/** Returns the value of `onFailure` if it replaces a page. Throws `refused` if a page cannot be relied on. */
export async function* pagesOf<Instead extends string = never>(
  bucket: Bucket,
  { query, lists: [element, name], ascends, next, ...ask }: Listing<Instead>,
): AsyncGenerator<readonly Entry[], Instead | undefined> {
  // A directory bucket lists in no order.
  const isOrdered = !isDirectory(bucket.name);
  const prefix = listedPrefix(bucket, ask.key);
  const whole = { prefix, 'encoding-type': 'url', ...query };
  let newest: Buffer = Buffer.alloc(0);
  let idlePages = 0;
  let after: Query | undefined = {};
  while (after !== undefined) {
    const from: Query = after;
    const got = await request(bucket, ask, async (send) => {
      const page = await xmlOf(await send({ query: { ...whole, ...from } }));
      const plainKey = plainKeyIn(page);
      const isTruncated = promised(page.text('IsTruncated'), 'IsTruncated');
      const following = isTruncated === 'true' ? next(page, plainKey) : undefined;
      if (following !== undefined && isSame(following, from)) throw new NotFromStore('next page');
      const found = page.all(element).map((xml) => ({ key: plainKey(promised(xml.text(name), name)), xml }));
      return { found, following, isTruncated };
    });
    if (typeof got === 'string') return got;
    const { found, following, isTruncated } = got;
    if (isTruncated !== 'true' && isTruncated !== 'false') throw undecided(bucket, ask, isTruncated);
    const asked = found.filter(({ key }) => key.startsWith(prefix));
    // Some servers list uploads of all prefixes.
    if (ascends && asked.length < found.length) throw astray(bucket, ask);
    let last = newest;
    for (const one of found) {
      const key = Buffer.from(one.key);
      if (Buffer.compare(key, last) > 0) last = key;
      else if (isOrdered && ascends) throw unordered(bucket, ask);
    }
    yield asked.map(({ key, xml }) => ({ key: key.slice(bucket.prefix.length), xml }));
    idlePages = asked.length === 0 || (isOrdered && last === newest) ? idlePages + 1 : 0;
    newest = last;
    after = following;
    if (after !== undefined && idlePages === MOST_IDLE_PAGES) throw endless(bucket, ask);
  }
  return undefined;
}

function isSame(one: Query, other: Query): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

const CHECK = 'check AWS_ENDPOINT_URL and HTTPS_PROXY: what answers there';

function endless(bucket: Bucket, ask: RequestOptions<string>): StoreError {
  const what = `${MOST_IDLE_PAGES} pages in a row lead no further`;
  return refused(bucket, ask, what, `${CHECK} lists without end`);
}

/** Taken for the last page, it would hide all later ones. */
function undecided(bucket: Bucket, ask: RequestOptions<string>, word: string): StoreError {
  const what = `IsTruncated is ${JSON.stringify(word.slice(0, 20))}, neither "true" nor "false"`;
  return refused(bucket, ask, what, `${CHECK} does not say whether a page is the last one`);
}

function astray(bucket: Bucket, ask: RequestOptions<string>): StoreError {
  return refused(
    bucket,
    ask,
    'the listing has keys of another prefix',
    `${CHECK} lists what nobody asked for`,
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

/** Keys may contain characters that XML cannot. Some servers ignore `encoding-type=url`, and their pages do not name it. */
function plainKeyIn(page: Xml): PlainKey {
  return page.text('EncodingType') === 'url' ? decoded : (told) => told;
}

function decoded(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll('+', ' '));
  } catch {
    throw new NotFromStore('key in the encoding that it names');
  }
}

/** The prefix of the request. For a directory bucket it must end with a slash, so the listing may contain more. */
function listedPrefix(bucket: Bucket, prefix: string): string {
  const whole = bucket.prefix + prefix;
  return isDirectory(bucket.name) ? whole.slice(0, whole.lastIndexOf('/') + 1) : whole;
}
