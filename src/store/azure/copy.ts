// Copies and promotions inside the account: the bytes do not pass through here. Each copy names the state of its source
// and of its target, so that a late one finds neither.
import { forEachAtOnce } from '../../model/waiting.ts';
import {
  exactly,
  type ObjectHead,
  type Precondition,
  type PromoteOptions,
  type PutOutcome,
  StoreError,
} from '../contract/store.ts';
import { promised } from '../http/body.ts';
import { type BlobContainer, blobOf, request } from './container.ts';
import { type Failure, isAbsent, isUnmet } from './failure.ts';
import { deleteObjects, getObject, headObject } from './objects.ts';
import { commitBlocks, conditionsOf, newBlockIds, putObject, refusalOf } from './put.ts';

export interface CopyLimits {
  /** The largest object for Copy Blob From URL (256 MiB). */
  readonly wholeBytes: number;
  /** Block size of a larger copy: at most 50,000 blocks of at most 4,000 MiB. */
  readonly blockBytes: number;
}

const MIB = 2 ** 20;
const LIMITS: CopyLimits = { wholeBytes: 256 * MIB, blockBytes: 256 * MIB };
const BLOCKS_AT_ONCE = 4;
/** A source that could not be deleted must not delay a push. */
const DELETE_BUDGET_MS = 5000;
/** So many others may write the target of a copy while it is under way. */
const MOST_TRIES = 10;

/** Of the URL of a source, in characters: Azure takes 2 KiB, with a SAS. */
const LONGEST_SOURCE = 2048 - 256;
/** Block size of a copy that passes through here, which holds several in memory. */
const THROUGH_BYTES = 8 * MIB;

export interface Copy {
  readonly from: string;
  readonly to: string;
  readonly signal?: AbortSignal | undefined;
}

/** Throws `missing` if `from` does not exist. */
export async function copyObject(
  container: BlobContainer,
  copy: Copy,
  limits: CopyLimits = LIMITS,
): Promise<void> {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const source = await sourceOf(container, copy);
    const outcome = await copyOver(container, copy, source, limits);
    if (outcome.kind === 'stored') return;
  }
  throw new StoreError(
    'transient',
    `CopyBlobFromURL ${container.url}/${copy.to}: others write it all the time`,
  );
}

/** Copies, then deletes the source. */
export async function promoteObject(
  container: BlobContainer,
  copy: Copy,
  { precondition = { kind: 'any' }, source: known }: Pick<PromoteOptions, 'precondition' | 'source'>,
  limits: CopyLimits = LIMITS,
): Promise<PutOutcome> {
  const { from, signal } = copy;
  // A copy in blocks must send all metadata itself.
  const source: Source =
    known !== undefined && known.sizeBytes <= limits.wholeBytes
      ? { ...known, meta: { push: known.push } }
      : await sourceOf(container, copy);
  const outcome =
    precondition.kind === 'any'
      ? await copyOver(container, copy, source, limits)
      : await copyTo(container, { ...copy, source, precondition }, limits);
  if (outcome.kind === 'source-changed') throw missing(container, from);
  if (outcome.kind !== 'stored') return outcome;
  // Without the right to delete, both objects stay. That is no failure.
  await deleteObjects(container, [from], { signal, budgetMs: DELETE_BUDGET_MS }).catch(() =>
    signal?.throwIfAborted(),
  );
  return outcome;
}

/** What a copy must know of its source. */
type Source = Pick<ObjectHead, 'tag' | 'sizeBytes' | 'meta'>;

async function sourceOf(container: BlobContainer, { from, signal }: Copy): Promise<Source> {
  const source = await headObject(container, from, signal);
  if (source === undefined) throw missing(container, from);
  return source;
}

function missing({ url }: BlobContainer, from: string): StoreError {
  return new StoreError('missing', `CopyBlobFromURL ${url}/${from}: there is no such object to copy`);
}

interface CopyJob extends Copy {
  readonly source: Source;
  readonly precondition: Precondition;
}

type Copied = PutOutcome | { readonly kind: 'source-changed' };

/** Over whatever stands there: without a condition, a late copy could undo a newer write. */
async function copyOver(
  container: BlobContainer,
  copy: Copy,
  source: Source,
  limits: CopyLimits,
): Promise<Copied> {
  for (let tries = 0; ; tries += 1) {
    const precondition = exactly(await headObject(container, copy.to, copy.signal));
    const outcome = await copyTo(container, { ...copy, source, precondition }, limits);
    const isInTheWay = outcome.kind === 'exists' || outcome.kind === 'replaced-meanwhile';
    if (!isInTheWay || tries === MOST_TRIES) return outcome;
  }
}

function copyTo(container: BlobContainer, job: CopyJob, limits: CopyLimits): Promise<Copied> {
  if (blobOf(container, job.from).url.length > LONGEST_SOURCE) return copyThrough(container, job, limits);
  return job.source.sizeBytes <= limits.wholeBytes
    ? copyWhole(container, job)
    : copyInBlocks(container, job, limits.blockBytes);
}

async function copyWhole(container: BlobContainer, job: CopyJob): Promise<Copied> {
  const { from, to, source, precondition, signal } = job;
  const onFailure = async (failure: Failure): Promise<Copied | undefined> => {
    if (!isUnmet(failure) && !isSourceChanged(failure)) return undefined;
    // A try whose answer was lost may have made the copy.
    const there = await headObject(container, to, signal);
    if (there !== undefined && isCopyOf(source, there)) return { kind: 'stored', tag: there.tag };
    const isSame = (await headObject(container, from, signal))?.tag === source.tag;
    return isSame ? refusalOf(precondition) : { kind: 'source-changed' };
  };
  const ask = { operation: 'CopyBlobFromURL' as const, key: to, signal, isSlow: true, onFailure };
  const [blob, sourceBlob] = [blobOf(container, to), blobOf(container, from)];
  return request(container, ask, async (abortSignal): Promise<Copied> => {
    const { url, authorization } = await container.signIn.sourceOf(sourceBlob, abortSignal);
    const { etag } = await blob.syncCopyFromURL(url, {
      abortSignal,
      conditions: conditionsOf(precondition),
      sourceConditions: { ifMatch: source.tag },
      sourceAuthorization: authorization,
    });
    return { kind: 'stored', tag: promised(etag, 'etag') };
  });
}

function isSourceChanged(failure: Failure): boolean {
  return failure.code === 'SourceConditionNotMet' || isAbsent(failure);
}

function isCopyOf(source: Source, there: ObjectHead): boolean {
  const { push } = source.meta;
  return push !== undefined && there.meta['push'] === push && there.sizeBytes === source.sizeBytes;
}

/** Of one state of the source: it still has that state when all blocks are there. */
async function copyInBlocks(container: BlobContainer, job: CopyJob, blockBytes: number): Promise<Copied> {
  const { from, to, source, precondition, signal } = job;
  const { meta, sizeBytes } = source;
  const idOf = newBlockIds();
  const ids = Array.from({ length: Math.ceil(sizeBytes / blockBytes) }, (_, at) => idOf(at));
  const [blob, sourceBlob] = [blobOf(container, to), blobOf(container, from)];
  const onFailure = async (failure: Failure): Promise<'source-changed' | undefined> =>
    isAbsent(failure) ? 'source-changed' : undefined;
  const ask = { operation: 'PutBlockFromURL' as const, key: to, signal, isSlow: true, onFailure };
  await forEachAtOnce(ids.entries(), BLOCKS_AT_ONCE, async ([at, id]) => {
    const first = at * blockBytes;
    await request(container, ask, async (abortSignal) => {
      const { url, authorization } = await container.signIn.sourceOf(sourceBlob, abortSignal);
      await blob.stageBlockFromURL(id, url, first, Math.min(blockBytes, sizeBytes - first), {
        abortSignal,
        sourceAuthorization: authorization,
      });
    });
  });
  if ((await headObject(container, from, signal))?.tag !== source.tag) return { kind: 'source-changed' };
  return commitBlocks(container, to, ids, { meta, precondition, signal });
}

/** Azure cannot be told where the source is: its bytes pass through here. */
async function copyThrough(
  container: BlobContainer,
  { from, to, source, precondition, signal }: CopyJob,
  { blockBytes }: CopyLimits,
): Promise<Copied> {
  const got = await getObject(container, from, signal === undefined ? {} : { signal });
  if (got?.tag !== source.tag) {
    await got?.body[Symbol.asyncIterator]().return?.();
    return { kind: 'source-changed' };
  }
  const options = { meta: got.meta, precondition, ...(signal === undefined ? {} : { signal }) };
  return putObject(container, to, blocksOf(got.body, Math.min(blockBytes, THROUGH_BYTES)), options);
}

async function* blocksOf(body: AsyncIterable<Uint8Array>, blockBytes: number): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  for await (const chunk of body) {
    held.push(chunk);
    heldBytes += chunk.byteLength;
    if (heldBytes < blockBytes) continue;
    yield Buffer.concat(held);
    held = [];
    heldBytes = 0;
  }
  if (heldBytes > 0) yield Buffer.concat(held);
}
