// Reads, lists and deletes objects. A body that breaks off must throw, never look complete. No other key than the given
// ones is touched.
import type { BlobGetPropertiesResponse } from '@azure/storage-blob';
import { forEachAtOnce } from '../../model/waiting.ts';
import { firstChunks, joined, releasing } from '../contract/driver.ts';
import {
  type GetOptions,
  type GotObject,
  type ListedObject,
  type ObjectHead,
  SLOWEST_BYTES_PER_S,
  StoreError,
} from '../contract/store.ts';
import {
  type BlobContainer,
  blobOf,
  bounded,
  request,
  type RequestOptions,
  SLOW_STALL_MS,
  STALL_MS,
} from './container.ts';
import { detailsOf, type Failure, failureOf, isAbsent } from './failure.ts';
import { metaOf } from './meta.ts';

export async function headObject(
  container: BlobContainer,
  key: string,
  signal?: AbortSignal,
): Promise<ObjectHead | undefined> {
  const blob = blobOf(container, key);
  const ask = { operation: 'GetBlobProperties' as const, key, signal, onFailure: absent };
  const found = await request(container, ask, (abortSignal) => blob.getProperties({ abortSignal }));
  return found === 'absent' ? undefined : { ...described(found), key, sizeBytes: found.contentLength ?? 0 };
}

type Described = Pick<BlobGetPropertiesResponse, 'etag' | 'metadata' | 'lastModified'>;

function described({ etag = '', metadata, lastModified }: Described) {
  return { tag: etag, meta: metaOf(metadata), modifiedMs: lastModified?.getTime() };
}

async function absent(failure: Failure): Promise<'absent' | undefined> {
  return isAbsent(failure) ? 'absent' : undefined;
}

export async function getObject(
  container: BlobContainer,
  key: string,
  { range, aheadBytes = -1, signal }: GetOptions,
): Promise<GotObject | undefined> {
  const blob = blobOf(container, key);
  const countBytes = range === undefined ? undefined : range.last - range.first + 1;
  const ask = { operation: 'GetBlob' as const, key, signal, onFailure: absent };
  const found = await request(container, ask, async (abortSignal, onProgress) => {
    const answer = await blob.download(range?.first ?? 0, countBytes, { abortSignal, maxRetryRequests: 0 });
    const stream = answer.readableStreamBody as AsyncIterable<Uint8Array> & { destroy(): void };
    try {
      const rest = stream[Symbol.asyncIterator]();
      onProgress();
      return { answer, stream, chunks: joined(await firstChunks(rest, aheadBytes), rest) };
    } catch (error) {
      stream.destroy();
      // The SDK says that it was aborted.
      throw Object.assign(new Error('the answer broke off', { cause: error }), { code: 'ECONNRESET' });
    }
  });
  if (found === 'absent') return undefined;
  const { answer, stream, chunks } = found;
  const lengthBytes = answer.contentLength ?? 0;
  // Azure answers 416 to a range that begins behind the end. azurite sends an empty body.
  if (range !== undefined && lengthBytes === 0) {
    stream.destroy();
    throw new StoreError('refused', `GetBlob ${container.url}/${key}: the range begins behind the end`);
  }
  const whole = /\/(\d+)$/.exec(answer.contentRange ?? '')?.[1];
  return {
    ...described(answer),
    key,
    sizeBytes: whole === undefined ? lengthBytes : Number(whole),
    body: releasing(wholeBody(container, key, { chunks, stream, lengthBytes, signal }), async () => {
      stream.destroy();
    }),
  };
}

interface Reading {
  readonly chunks: AsyncGenerator<Uint8Array>;
  readonly stream: { destroy(): void };
  readonly lengthBytes: number;
  readonly signal: AbortSignal | undefined;
}

async function* wholeBody(
  container: BlobContainer,
  key: string,
  { chunks, stream, lengthBytes, signal }: Reading,
): AsyncGenerator<Uint8Array> {
  let seenBytes = 0;
  let waitedMs = 0;
  const next = async (): Promise<IteratorResult<Uint8Array>> => {
    // What comes a few bytes at a time is no answer, either.
    const leftMs = STALL_MS + (seenBytes / SLOWEST_BYTES_PER_S) * 1000 - waitedMs;
    const startMs = performance.now();
    const chunk = await bounded(signal, Math.min(STALL_MS, leftMs), () => chunks.next());
    waitedMs += performance.now() - startMs;
    return chunk;
  };
  try {
    for (let chunk = await next(); chunk.done !== true; chunk = await next()) {
      seenBytes += chunk.value.byteLength;
      yield chunk.value;
    }
    if (seenBytes !== lengthBytes) throw Object.assign(new Error('too short'), { code: 'ECONNRESET' });
  } catch (error) {
    signal?.throwIfAborted();
    const details = detailsOf(failureOf(error, container.endpoint), 1);
    const where = `after ${seenBytes} of ${lengthBytes} bytes`;
    throw new StoreError(
      'transient',
      `GetBlob ${container.url}/${key}: the answer broke off ${where} (${details})`,
    );
  } finally {
    stream.destroy();
  }
}

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
      return firstOf(pages);
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

/** The iterator of the SDK sends one request for each page. */
async function firstOf<T>(pages: AsyncIterable<T>): Promise<T> {
  for await (const page of pages) return page;
  throw new Error('a listing without a page');
}

function listingOf(key: string, signal: AbortSignal | undefined) {
  return { operation: 'ListBlobs' as const, key, signal, stallMs: SLOW_STALL_MS };
}

/** Names of the folders directly below a prefix, from the first page that has anything: one may be empty. */
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
      return firstOf(listed.byPage({ continuationToken: token }));
    });
    const { blobPrefixes = [], blobItems } = page.segment;
    if (blobPrefixes.length + blobItems.length > 0) {
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
  const info = await request(container, ask, (abortSignal) =>
    container.signIn.container.getAccountInfo({ abortSignal }),
  );
  if (info !== 'unknown' && info.isHierarchicalNamespaceEnabled === true) throw unordered(container);
  container.account.isFlat = true;
}

/** There, an object cannot have the name of a folder, folders are listed as objects, and the order is another one. */
function unordered({ url }: BlobContainer): StoreError {
  return new StoreError('refused', `${url}: the account has a hierarchical namespace (Data Lake Storage)`, {
    hint: 'use a storage account without it',
  });
}

const DELETED_AT_ONCE = 4;

export async function deleteObjects(
  container: BlobContainer,
  keys: readonly string[],
  options: Pick<RequestOptions<never>, 'signal' | 'budgetMs'>,
): Promise<void> {
  await forEachAtOnce(keys, DELETED_AT_ONCE, async (key) => {
    const blob = blobOf(container, key);
    const ask = { operation: 'DeleteBlob' as const, key, ...options, onFailure: absent };
    await request(container, ask, (abortSignal) => blob.delete({ abortSignal }));
  });
}
