// Copies and promotions inside Cloud Storage: the bytes do not pass through here. Each copy names the state of its
// source and of its target, so a late one does nothing.
import {
  exactly,
  type ObjectHead,
  type Precondition,
  type PromoteOptions,
  type PutOutcome,
  StoreError,
} from '../contract/store.ts';
import { NotFromStore, promised, textOf } from '../http/body.ts';
import { type Bucket, request, resourcePath } from './bucket.ts';
import type { Failure } from './failure.ts';
import { deleteObject, type Found, look, resourceIn } from './objects.ts';
import { generationOf } from './outcome.ts';

/** A source that could not be deleted must not delay a push. */
const DELETE_BUDGET_MS = 5000;

/** How often somebody may replace the target between the look and the copy. */
const MOST_LOOKS = 10;

export interface Copy {
  readonly from: string;
  readonly to: string;
  readonly signal?: AbortSignal | undefined;
}

/** Copies, then deletes the source, in the state that was copied. */
export async function moveObject(
  bucket: Bucket,
  copy: Copy,
  { precondition = { kind: 'any' }, source: known }: Pick<PromoteOptions, 'precondition' | 'source'>,
): Promise<PutOutcome> {
  const { from, signal } = copy;
  const source =
    known === undefined ? await sourceOf(bucket, copy) : { ...known, meta: { push: known.push } };
  const outcome = await copyTo(bucket, copy, source, precondition);
  if (outcome.kind !== 'stored') return outcome;
  // Without the right to delete, both objects stay. That is no failure.
  await deleteObject(bucket, from, { tag: source.tag, signal, budgetMs: DELETE_BUDGET_MS }).catch(() =>
    signal?.throwIfAborted(),
  );
  return outcome;
}

/** Copies one object. Throws `missing` if it does not exist. */
export async function copyObject(bucket: Bucket, copy: Copy): Promise<void> {
  await copyTo(bucket, copy, await sourceOf(bucket, copy), { kind: 'any' });
}

/** What a copy must know of its source. */
type Source = Pick<ObjectHead, 'tag' | 'sizeBytes' | 'meta'>;

async function sourceOf(bucket: Bucket, { from, signal }: Copy): Promise<Source> {
  const source = await look(bucket, from, { signal });
  if (source === undefined) throw missing(bucket, from);
  return source;
}

function missing(bucket: Bucket, from: string): StoreError {
  return new StoreError('missing', `copy ${bucket.url}/${from}: there is no such object to copy`);
}

async function copyTo(
  bucket: Bucket,
  copy: Copy,
  source: Source,
  precondition: Precondition,
): Promise<PutOutcome> {
  if (precondition.kind !== 'any') return copyOver({ bucket, copy, source, precondition });
  for (let n = 0; n < MOST_LOOKS; n += 1) {
    // Without a condition a late copy could undo a newer object.
    const there = await look(bucket, copy.to, { signal: copy.signal });
    const outcome = await copyOver({ bucket, copy, source, precondition: exactly(there) });
    if (outcome.kind === 'stored') return outcome;
  }
  throw new StoreError(
    'transient',
    `${copy.to} was replaced by another each time that it was to be copied to`,
  );
}

interface CopyJob {
  readonly bucket: Bucket;
  readonly copy: Copy;
  readonly source: Source;
  readonly precondition: Precondition;
}

/** A large object that is copied to another location takes several requests. Each continues the one before. */
async function copyOver(job: CopyJob): Promise<PutOutcome> {
  const { bucket, copy, source, precondition } = job;
  const { from, to, signal } = copy;
  const path = `${resourcePath(bucket, from)}/rewriteTo/b/${bucket.name}/o/${encodeURIComponent(bucket.prefix + to)}`;
  const conditions: Record<string, string> = {
    ifSourceGenerationMatch: source.tag,
    ifGenerationMatch: generationOf(precondition) ?? '',
  };
  let rewriteToken = '';
  const onFailure = async (failure: Failure): Promise<PutOutcome | undefined> => outcomeOf(job, failure);
  return request(bucket, { operation: 'copy', key: from, signal, onFailure }, async (send) => {
    for (;;) {
      const query = rewriteToken === '' ? conditions : { ...conditions, rewriteToken };
      const told = resourceIn(await textOf(await send({ method: 'POST', path, query })));
      if (told['done'] === true) return { kind: 'stored', tag: copied(source, told['resource']) } as const;
      rewriteToken = promised(textIn(told, 'rewriteToken'), 'rewriteToken');
    }
  });
}

function copied(source: Source, resource: unknown): string {
  const size = textIn(resource, 'size') ?? '0';
  if (size !== String(source.sizeBytes)) throw new NotFromStore('copy of the same size');
  return promised(textIn(resource, 'generation'), 'generation');
}

function textIn(resource: unknown, name: string): string | undefined {
  if (typeof resource !== 'object' || resource === null) return undefined;
  const value: unknown = Reflect.get(resource, name);
  return typeof value === 'string' ? value : undefined;
}

/** What a copy without an answer has done after all, or which of its conditions does not hold. */
async function outcomeOf(job: CopyJob, { status, code, lost }: Failure): Promise<PutOutcome | undefined> {
  const { bucket, copy, source, precondition } = job;
  const { from, to, signal } = copy;
  const isRefused = status === 412;
  if (status === 404 && code !== 'NoSuchBucket') throw missing(bucket, from);
  if (!isRefused && !lost) return undefined;
  const options = isRefused ? { signal } : { signal, budgetMs: 0 };
  let there: Found | undefined;
  try {
    there = await look(bucket, to, options);
  } catch (error) {
    if (isRefused) throw error;
    signal?.throwIfAborted();
    return undefined;
  }
  if (there !== undefined && isCopyOf(source, there)) return { kind: 'stored', tag: there.tag };
  if (!isRefused) return undefined;
  if (precondition.kind === 'absent' && there !== undefined) return { kind: 'exists' };
  if (precondition.kind === 'is' && there?.tag !== precondition.tag) return { kind: 'replaced-meanwhile' };
  if ((await look(bucket, from, { signal })) === undefined) throw missing(bucket, from);
  // The source has been replaced since it was found.
  return undefined;
}

function isCopyOf(source: Source, there: Found): boolean {
  const push = source.meta['push'];
  return push !== undefined && there.meta['push'] === push && there.sizeBytes === source.sizeBytes;
}
