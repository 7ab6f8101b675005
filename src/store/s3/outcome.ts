// What a write has done after all whose answer was lost, is none of S3, or says that its condition does not hold. The push
// id in the object's metadata tells: a write is never reported as failed when it was done, nor as ours when it was
// another's.
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

/** The server said no, and what is to be replaced stands there as it should: it does not know what the condition says. */
export const UNHONOURED = { kind: 'unhonoured' } as const;

/**
 * Asks after a failed write; undefined when it is not known, or nothing was done. Another push's object is the answer to a
 * create-only put, whatever has failed: the key is taken. Ceph RGW replaces an object although the put that completes an
 * upload is create-only, and then answers the loser's next tries with 500 for as long as it is asked.
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
      // In an outage the look fails as the write did: the write is tried again and its error tells more.
      if (isRefused) throw error;
      signal?.throwIfAborted();
    }
    return isRefused ? { kind: 'exists' } : undefined;
  };
}

/** What a look says before a write that the server puts no condition on; undefined: it may go on. */
export async function unmet({ bucket, key, options }: Write): Promise<PutOutcome | undefined> {
  const { meta, precondition = ANY, signal } = options;
  if (precondition.kind === 'any') return undefined;
  const there = await headObject(bucket, key, { signal });
  return storedBy(meta, there) ?? refusalBy(precondition, there);
}

/** Undefined unless this very write has made what stands there. */
function storedBy({ push }: ObjectMeta, there: ObjectHead | undefined): PutOutcome | undefined {
  if (there === undefined || push === undefined || there.meta['push'] !== push) return undefined;
  return { kind: 'stored', tag: there.tag };
}

/** What a write under this precondition comes to over what stands there; undefined: it holds. */
export function refusalBy(precondition: Precondition, there: ObjectHead | undefined): PutOutcome | undefined {
  if (precondition.kind === 'absent') return there === undefined ? undefined : { kind: 'exists' };
  if (precondition.kind === 'any' || there?.tag === precondition.tag) return undefined;
  return { kind: 'replaced-meanwhile' };
}

const ANY: Precondition = { kind: 'any' };

/** How a condition stands in a request. */
export function conditionHeaders(
  { server }: Bucket,
  precondition: Precondition | undefined,
): Record<string, string> {
  if (precondition?.kind === 'absent') return { 'if-none-match': '*' };
  if (precondition?.kind !== 'is') return {};
  return { 'if-match': server.quotesTags ? `"${precondition.tag}"` : precondition.tag };
}
