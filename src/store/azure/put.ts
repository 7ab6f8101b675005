// Writes to Azure. A small body is one Put Blob; a larger one is sent as blocks, which one Put Block List makes visible.
// Each write gives the object a new ETag, for ever unique: so a late write whose condition names a state finds that state
// gone once anything newer has been written.
import { randomUUID } from 'node:crypto';
import type { BlobRequestConditions } from '@azure/storage-blob';
import { md5Of } from '../../model/md5.ts';
import { linkSignals } from '../../model/waiting.ts';
import { joined, wholeOrParts } from '../contract/driver.ts';
import {
  type ObjectHead,
  type Precondition,
  type PutOptions,
  type PutOutcome,
  StoreError,
} from '../contract/store.ts';
import { promised } from '../http/body.ts';
import { type BlobContainer, blobOf, request, slicesOf } from './container.ts';
import { type Failure, isUnmet } from './failure.ts';
import { azureMeta } from './meta.ts';
import { headObject } from './objects.ts';

const HEADERS = { blobContentType: 'application/octet-stream' };
/** Each block in flight is in memory. */
const BLOCKS_AT_ONCE = 2;

interface PutJob {
  readonly container: BlobContainer;
  readonly key: string;
  readonly options: PutOptions;
}

/** Makes one object visible, atomically. */
export async function putObject(
  container: BlobContainer,
  key: string,
  body: Uint8Array | AsyncIterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const job = { container, key, options };
  return wholeOrParts(
    body,
    (bytes) => putBytes(job, bytes),
    (first, second, rest) => putBlocks(job, joined([first, second], rest)),
  );
}

async function putBytes({ container, key, options }: PutJob, body: Uint8Array): Promise<PutOutcome> {
  const { meta, precondition, signal, md5 = md5Of(body) } = options;
  const blob = blobOf(container, key);
  const onFailure = outcomeAfter(container, key, options);
  const headers = { ...HEADERS, blobContentMD5: Buffer.from(md5, 'hex') };
  const ask = { operation: 'PutBlob' as const, key, signal, onFailure };
  return request(container, ask, async (abortSignal, onProgress): Promise<PutOutcome> => {
    const { etag } = await blob.upload(slicesOf(body), body.byteLength, {
      abortSignal,
      onProgress,
      metadata: azureMeta(meta),
      blobHTTPHeaders: headers,
      conditions: conditionsOf(precondition),
    });
    options.onSent?.(body.byteLength);
    return { kind: 'stored', tag: promised(etag, 'etag') };
  });
}

async function putBlocks(job: PutJob, chunks: AsyncGenerator<Uint8Array>): Promise<PutOutcome> {
  const { container, key, options } = job;
  blobOf(container, key);
  const ids = newBlockIds();
  const count = await sendBlocks(job, ids, chunks);
  return commitBlocks(
    container,
    key,
    Array.from({ length: count }, (_, at) => ids(at)),
    options,
  );
}

/**
 * Names of blocks, by their numbers from 0. All blocks of an object that are not committed yet share one namespace, and
 * must have names of one length. Blocks of other puts of the key stay apart by the random part.
 */
export function newBlockIds(): (at: number) => string {
  const put = randomUUID();
  return (at) => Buffer.from(`${put}-${String(at).padStart(5, '0')}`).toString('base64');
}

/** Returns how many. The first failure also stops the other block in flight, which could take minutes on a slow link. */
async function sendBlocks(
  { container, key, options }: PutJob,
  ids: (at: number) => string,
  chunks: AsyncGenerator<Uint8Array>,
): Promise<number> {
  const blob = blobOf(container, key);
  const stop = new AbortController();
  const { signal, unlink } = linkSignals(stop.signal, options.signal);
  let count = 0;
  const sendInTurn = async (): Promise<void> => {
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
      signal.throwIfAborted();
      const bytes = next.value;
      const id = ids(count);
      count += 1;
      const transactionalContentMD5 = Buffer.from(md5Of(bytes), 'hex');
      await request(container, { operation: 'PutBlock', key, signal }, (abortSignal, onProgress) =>
        blob.stageBlock(id, slicesOf(bytes), bytes.byteLength, {
          abortSignal,
          onProgress,
          transactionalContentMD5,
        }),
      );
      options.onSent?.(bytes.byteLength);
      options.release?.(bytes);
    }
  };
  try {
    await Promise.all(Array.from({ length: BLOCKS_AT_ONCE }, sendInTurn));
    return count;
  } catch (error) {
    stop.abort(error);
    options.signal?.throwIfAborted();
    throw error;
  } finally {
    unlink();
  }
}

/**
 * Makes blocks visible as one object. A late one does no harm: a newer write of the key has discarded its blocks, or has
 * changed the state that its condition names.
 */
export async function commitBlocks(
  container: BlobContainer,
  key: string,
  ids: readonly string[],
  { meta, precondition, signal }: PutOptions,
): Promise<PutOutcome> {
  const blob = blobOf(container, key);
  const settle = outcomeAfter(container, key, { meta, precondition, signal });
  const onFailure = async (failure: Failure): Promise<PutOutcome | typeof DISCARDED | undefined> => {
    if (failure.code !== 'InvalidBlockList') return settle(failure);
    return outcomeBy({ meta, precondition }, await headObject(container, key, signal)) ?? DISCARDED;
  };
  const ask = { operation: 'PutBlockList' as const, key, signal, isSlow: true, onFailure };
  const outcome = await request(container, ask, async (abortSignal): Promise<PutOutcome> => {
    const { etag } = await blob.commitBlockList([...ids], {
      abortSignal,
      metadata: azureMeta(meta),
      blobHTTPHeaders: HEADERS,
      conditions: conditionsOf(precondition),
    });
    return { kind: 'stored', tag: promised(etag, 'etag') };
  });
  if (outcome.kind !== 'discarded') return outcome;
  // Nothing of the body is left to send again.
  throw new StoreError(
    'transient',
    `PutBlockList ${container.url}/${key}: another write has discarded its blocks`,
  );
}

export function conditionsOf(precondition: Precondition | undefined): BlobRequestConditions {
  if (precondition?.kind === 'absent') return { ifNoneMatch: '*' };
  return precondition?.kind === 'is' ? { ifMatch: precondition.tag } : {};
}

/** Another write has discarded the blocks of a put, and the key is again as the put needs it. */
const DISCARDED = { kind: 'discarded' } as const;

type Write = Pick<PutOptions, 'meta' | 'precondition' | 'signal'>;

/** Finds out what a write has done whose condition does not hold: a try whose answer was lost may have changed that. */
function outcomeAfter(container: BlobContainer, key: string, { meta, precondition, signal }: Write) {
  return async (failure: Failure): Promise<PutOutcome | undefined> => {
    if (!isUnmet(failure)) return undefined;
    const there = await headObject(container, key, signal);
    return outcomeBy({ meta, precondition }, there) ?? refusalOf(precondition);
  };
}

/** Undefined if nothing speaks against the write. */
function outcomeBy({ meta, precondition }: Write, there: ObjectHead | undefined): PutOutcome | undefined {
  if (there !== undefined && meta['push'] !== undefined && there.meta['push'] === meta['push'])
    return { kind: 'stored', tag: there.tag };
  const isMet =
    precondition?.kind === 'is'
      ? there?.tag === precondition.tag
      : precondition?.kind !== 'absent' || there === undefined;
  return isMet ? undefined : refusalOf(precondition);
}

/** The outcome of a write whose condition did not hold. */
export function refusalOf(precondition: Precondition | undefined): PutOutcome {
  return { kind: precondition?.kind === 'is' ? 'replaced-meanwhile' : 'exists' };
}
