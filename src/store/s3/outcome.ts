// Finds out what a write has done if its answer was lost, did not come from S3, or says that the condition does not
// hold. The push id in the object's metadata decides. A write is never reported as failed if it was done, nor as ours
// if the object is another writer's.
import type { ObjectHead, ObjectMeta, Precondition, PutOptions, PutOutcome } from '../contract/store.ts';
import type { Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { headObject } from './objects.ts';
import { isUnmet } from './server.ts';

export interface Write {
  readonly bucket: Bucket;
  readonly key: string;
  readonly options: Pick<PutOptions, 'meta' | 'signal' | 'precondition'>;
}

/**
 * The server refused, although the object to be replaced is in the right state: it does not understand the condition.
 */
export const UNHONOURED = { kind: 'unhonoured' } as const;

/**
 * Looks at the object after a failed write. Undefined if the result is unknown, or nothing was done. If another push's
 * object is there, a create-only put has its answer, whatever failed: the key is taken. Ceph RGW ignores create-only
 * when it completes an upload and replaces the object. It then answers all retries of the losing upload with 500.
 */
export function outcomeAfter({ bucket, key, options }: Write) {
  const { meta, signal, precondition } = options;
  const isUnmetHere =
    precondition?.kind === 'is'
      ? (failure: Failure) => isUnmet(failure) || failure.status === 501
      : ({ status }: Failure) => status === 412;
  return async (failure: Failure): Promise<PutOutcome | typeof UNHONOURED | undefined> => {
    const isRefused = isUnmetHere(failure);
    // Without a push id nobody can tell whose object it is.
    if (isRefused && meta['push'] === undefined) return { kind: 'exists' };
    if (!isRefused && !failure.lost && failure.code !== 'NoSuchUpload') return undefined;
    try {
      const there = await headObject(bucket, key, isRefused ? { signal } : { signal, budgetMs: 0 });
      const stored = storedBy(meta, there);
      if (stored !== undefined) return stored;
      if (precondition?.kind === 'is') {
        if (there?.tag !== precondition.tag) return { kind: 'replaced-meanwhile' };
        return isRefused ? UNHONOURED : undefined;
      }
      if (there?.meta['push'] !== undefined && precondition?.kind === 'absent') return { kind: 'exists' };
    } catch (error) {
      // During an outage the look fails like the write. The write is retried, and its error says more.
      if (isRefused) throw error;
      signal?.throwIfAborted();
    }
    return isRefused ? { kind: 'exists' } : undefined;
  };
}

/** The look before a write on which the server honours no condition. Undefined: the write may proceed. */
export async function unmet({ bucket, key, options }: Write): Promise<PutOutcome | undefined> {
  const { meta, precondition = ANY, signal } = options;
  if (precondition.kind === 'any') return undefined;
  const there = await headObject(bucket, key, { signal });
  return storedBy(meta, there) ?? refusalBy(precondition, there);
}

/** Undefined unless this very write has stored the object. */
function storedBy({ push }: ObjectMeta, there: ObjectHead | undefined): PutOutcome | undefined {
  if (there === undefined || push === undefined || there.meta['push'] !== push) return undefined;
  return { kind: 'stored', tag: there.tag };
}

/** The outcome of a write whose precondition fails on the current object; undefined if it holds. */
export function refusalBy(precondition: Precondition, there: ObjectHead | undefined): PutOutcome | undefined {
  if (precondition.kind === 'absent') return there === undefined ? undefined : { kind: 'exists' };
  if (precondition.kind === 'any' || there?.tag === precondition.tag) return undefined;
  return { kind: 'replaced-meanwhile' };
}

const ANY: Precondition = { kind: 'any' };

/** The headers for a condition. */
export function conditionHeaders(
  { server }: Bucket,
  precondition: Precondition | undefined,
): Record<string, string> {
  if (precondition?.kind === 'absent') return { 'if-none-match': '*' };
  if (precondition?.kind !== 'is') return {};
  return { 'if-match': server.quotesTags ? `"${precondition.tag}"` : precondition.tag };
}
