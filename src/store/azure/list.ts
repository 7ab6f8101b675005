// Lists objects and folders, in the order of the bytes of their keys.
import { type ListedObject, StoreError } from '../contract/store.ts';
import { NotFromStore, promised } from '../http/body.ts';
import { type BlobContainer, request } from './container.ts';
import type { Failure } from './failure.ts';

/** All objects below a prefix, in byte order. */
export async function* listObjects(
  container: BlobContainer,
  prefix: string,
  signal: AbortSignal | undefined,
  pageKeys = 1000,
): AsyncGenerator<ListedObject> {
  // Azure may order names as UTF-16, which differs from the order of their bytes only among names with a unit from
  // U+D800 on. All names between two such ones that change places have such a unit, too: so each run of them is sorted.
  let run: ListedObject[] = [];
  let last = '';
  for await (const page of pagesOf(container, { prefix, signal, pageKeys })) {
    for (const one of page) {
      if (/[\uD800-\uFFFF]/.test(one.key)) run.push(one);
      else {
        if (one.key < last) throw unordered(container);
        last = one.key;
        yield* inByteOrder(run);
        run = [];
        yield one;
      }
    }
  }
  yield* inByteOrder(run);
}

function inByteOrder(run: readonly ListedObject[]): readonly ListedObject[] {
  const keyed = run.map((one) => [Buffer.from(one.key), one] as const);
  return keyed.toSorted(([a], [b]) => Buffer.compare(a, b)).map(([, one]) => one);
}

interface Listing {
  readonly prefix: string;
  readonly signal: AbortSignal | undefined;
  readonly pageKeys: number;
}

async function* pagesOf(
  container: BlobContainer,
  { prefix, signal, pageKeys }: Listing,
): AsyncGenerator<readonly ListedObject[]> {
  await refuseHierarchy(container, signal);
  const ask = listingOf(prefix, signal);
  const { container: client } = container.signIn;
  let continuationToken: string | undefined;
  do {
    const token = continuationToken;
    const page = await request(container, ask, async (abortSignal) => {
      const listed = client.listBlobsFlat({ prefix: container.prefix + prefix, abortSignal });
      const pages = listed.byPage({ continuationToken: token, maxPageSize: pageKeys });
      return firstOf(pages, container.prefix + prefix, token);
    });
    yield page.segment.blobItems.map(({ name, properties }) => ({
      key: name.slice(container.prefix.length),
      sizeBytes: properties.contentLength ?? 0,
      modifiedMs: properties.lastModified.getTime(),
      md5: properties.contentMD5 && Buffer.from(properties.contentMD5).toString('hex'),
    }));
    continuationToken = page.continuationToken;
  } while (continuationToken);
}

interface Page {
  readonly continuationToken?: string;
  readonly segment: {
    readonly blobItems: readonly { readonly name: string }[];
    readonly blobPrefixes?: readonly { readonly name: string }[];
  };
}

/** The iterator of the SDK sends one request for each page. Throws if the page is not one of Azure, or never ends. */
async function firstOf<P extends Page>(
  pages: AsyncIterable<P>,
  prefix: string,
  token: string | undefined,
): Promise<P> {
  for await (const page of pages) {
    const { blobItems, blobPrefixes = [] } = promised(page.segment, 'Blobs');
    const isOurs = [...blobItems, ...blobPrefixes].every(({ name }) => name.startsWith(prefix));
    if (!isOurs) throw new NotFromStore('keys that were asked for');
    if (page.continuationToken && page.continuationToken === token) throw new NotFromStore('end');
    return page;
  }
  throw new NotFromStore('page');
}

function listingOf(key: string, signal: AbortSignal | undefined) {
  return { operation: 'ListBlobs' as const, key, signal, isSlow: true };
}

/** Names of the folders directly below a prefix, from the first page that has some: one may be empty, or hold only objects. */
export async function listFolders(
  container: BlobContainer,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  await refuseHierarchy(container, signal);
  const { container: client } = container.signIn;
  const whole = container.prefix + prefix;
  let continuationToken: string | undefined;
  do {
    const token = continuationToken;
    const page = await request(container, listingOf(prefix, signal), async (abortSignal) => {
      const listed = client.listBlobsByHierarchy('/', { prefix: whole, abortSignal });
      return firstOf(listed.byPage({ continuationToken: token }), whole, token);
    });
    const { blobPrefixes = [] } = page.segment;
    if (blobPrefixes.length > 0) {
      const names = blobPrefixes.map(({ name }) => name.slice(whole.length, -1));
      return names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).slice(0, MOST_FOLDERS);
    }
    continuationToken = page.continuationToken;
  } while (continuationToken);
  return [];
}

const MOST_FOLDERS = 1000;

/** Asks once. Who may not ask finds out by the order of a listing. */
async function refuseHierarchy(container: BlobContainer, signal: AbortSignal | undefined): Promise<void> {
  if (container.account.isFlat) return;
  const ask = {
    operation: 'GetAccountInformation' as const,
    key: '',
    signal,
    onFailure: async ({ kind }: Failure) => (kind === 'denied' || kind === 'refused' ? 'unknown' : undefined),
  };
  const isHierarchy = await request(container, ask, async (abortSignal) => {
    const info = await container.signIn.container.getAccountInfo({ abortSignal });
    promised(info.requestId, 'x-ms-request-id');
    return info.isHierarchicalNamespaceEnabled === true;
  });
  if (isHierarchy === true) throw unordered(container);
  container.account.isFlat = true;
}

/** There, an object cannot have the name of a folder, folders are listed as objects, and the order is another one. */
function unordered({ url }: BlobContainer): StoreError {
  return new StoreError('refused', `${url}: the account has a hierarchical namespace (Data Lake Storage)`, {
    hint: 'use a storage account without it',
  });
}
