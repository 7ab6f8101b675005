// Reads and deletes objects. A body that breaks off must throw, never look complete. No other key than the given
// ones is touched.
import type { BlobGetPropertiesResponse } from '@azure/storage-blob';
import { forEachAtOnce } from '../../model/waiting.ts';
import { firstChunks, joined, releasing } from '../contract/driver.ts';
import {
  type GetOptions,
  type GotObject,
  type ObjectHead,
  SLOWEST_BYTES_PER_S,
  StoreError,
} from '../contract/store.ts';
import { NotFromStore, promised } from '../http/body.ts';
import { type BlobContainer, blobOf, bounded, request, type RequestOptions } from './container.ts';
import { detailsOf, type Failure, failureOf, isAbsent } from './failure.ts';
import { metaOf } from './meta.ts';

export async function headObject(
  container: BlobContainer,
  key: string,
  signal?: AbortSignal,
): Promise<ObjectHead | undefined> {
  const blob = blobOf(container, key);
  const ask = { operation: 'GetBlobProperties' as const, key, signal, onFailure: absent };
  const found = await request(container, ask, async (abortSignal) => {
    const answer = await blob.getProperties({ abortSignal });
    return { ...described(answer), key, sizeBytes: answer.contentLength ?? 0 };
  });
  return found === 'absent' ? undefined : found;
}

type Described = Pick<BlobGetPropertiesResponse, 'etag' | 'blobType' | 'metadata' | 'lastModified'>;

/** Throws if Azure has not answered: any server of files sends an ETag. */
function described({ etag, blobType, metadata, lastModified }: Described) {
  promised(blobType, 'x-ms-blob-type');
  return { tag: promised(etag, 'etag'), meta: metaOf(metadata), modifiedMs: lastModified?.getTime() };
}

async function absent(failure: Failure): Promise<'absent' | undefined> {
  return isAbsent(failure) ? 'absent' : undefined;
}

export async function getObject(
  container: BlobContainer,
  key: string,
  options: GetOptions,
): Promise<GotObject | undefined> {
  const { range, signal } = options;
  const ask = { operation: 'GetBlob' as const, key, signal, onFailure: absent };
  const found = await request(container, ask, (abortSignal, onProgress) =>
    begin(container, key, options, { abortSignal, onProgress }),
  );
  if (found === 'absent') return undefined;
  const { head, sizeBytes, ...reading } = found;
  // Azure answers 416 to a range that begins behind the end. azurite sends an empty body.
  if (range !== undefined && reading.lengthBytes === 0) {
    reading.stream.destroy();
    throw new StoreError('refused', `GetBlob ${container.url}/${key}: the range begins behind the end`);
  }
  return {
    ...head,
    key,
    sizeBytes,
    body: releasing(wholeBody(container, key, { ...reading, signal }), async () => {
      reading.stream.destroy();
    }),
  };
}

/** Asks for an object, and reads its first bytes. */
async function begin(
  container: BlobContainer,
  key: string,
  { range, aheadBytes = -1, signal }: GetOptions,
  { abortSignal, onProgress }: { readonly abortSignal: AbortSignal; readonly onProgress: () => void },
) {
  const countBytes = range === undefined ? undefined : range.last - range.first + 1;
  const answer = await blobOf(container, key).download(range?.first ?? 0, countBytes, {
    abortSignal,
    maxRetryRequests: 0,
  });
  const stream = answer.readableStreamBody as AsyncIterable<Uint8Array> & { destroy(): void };
  try {
    const head = described(answer);
    const { contentLength: lengthBytes = 0, contentRange = '' } = answer;
    const [, first = '0', wholeBytes] = /^bytes (\d+)-\d+\/(\d+)$/.exec(contentRange) ?? [];
    const isOther = lengthBytes !== 0 && Number(first) !== (range?.first ?? 0);
    if (isOther || lengthBytes > (countBytes ?? Infinity)) throw new NotFromStore('range that was asked for');
    const rest = patiently(container, stream[Symbol.asyncIterator](), signal);
    const next = async (): Promise<IteratorResult<Uint8Array>> => {
      const chunk = await rest.next();
      onProgress();
      return chunk;
    };
    const sizeBytes = wholeBytes === undefined ? lengthBytes : Number(wholeBytes);
    const chunks = joined(await firstChunks({ next }, aheadBytes), rest);
    return { head, sizeBytes, lengthBytes, stream, chunks };
  } catch (error) {
    stream.destroy();
    if (error instanceof NotFromStore) throw error;
    // The SDK says that it was aborted.
    throw Object.assign(new Error('the answer broke off', { cause: error }), { code: 'ECONNRESET' });
  }
}

/** Throws if no chunk comes for a time. What comes a few bytes at a time is no answer, either. */
function patiently(
  { stallMs }: BlobContainer,
  chunks: AsyncIterator<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncIterator<Uint8Array> {
  let seenBytes = 0;
  let waitedMs = 0;
  return {
    next: async () => {
      const leftMs = stallMs + (seenBytes / SLOWEST_BYTES_PER_S) * 1000 - waitedMs;
      const startMs = performance.now();
      const chunk = await bounded(signal, Math.min(stallMs, leftMs), () => chunks.next());
      waitedMs += performance.now() - startMs;
      if (chunk.done !== true) seenBytes += chunk.value.byteLength;
      return chunk;
    },
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
  try {
    for await (const chunk of chunks) {
      seenBytes += chunk.byteLength;
      yield chunk;
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
