// Conditions on writes, and what a write has done if its answer was lost, or says that the condition does not hold. The
// push id in the object's metadata decides. No late request can undo a newer write: a generation is never used again.
import { type ObjectMeta, type Precondition, type PutOutcome, StoreError } from '../contract/store.ts';
import type { Bucket } from './bucket.ts';
import type { Failure } from './failure.ts';
import { type Found, look } from './objects.ts';

/** No object has this generation: they are times in microseconds. */
const NEVER = '1';

/**
 * The generation that the key must have: 0 stands for no object
 * (https://docs.cloud.google.com/storage/docs/request-preconditions).
 */
export function generationOf(precondition: Precondition | undefined): string | undefined {
  if (precondition?.kind === 'absent') return '0';
  if (precondition?.kind !== 'is') return undefined;
  return /^[1-9]\d*$/.test(precondition.tag) ? precondition.tag : NEVER;
}

export interface Write {
  readonly bucket: Bucket;
  readonly key: string;
  readonly meta: ObjectMeta;
  readonly precondition: Precondition | undefined;
  readonly signal: AbortSignal | undefined;
  /** True if a found object has the bytes of this write. */
  readonly isWhole: (there: Found) => boolean;
}

/** Looks at the object after a failed write. Undefined if the result is unknown, or nothing was done. */
export async function outcomeAfter(write: Write, failure: Failure): Promise<PutOutcome | undefined> {
  const { bucket, key, meta, precondition } = write;
  const isRefused = failure.status === 412;
  const isGone = failure.status === 404 || failure.status === 410;
  if (!isRefused && !failure.lost && !isGone) return undefined;
  const refusal = isRefused ? refusalOf(precondition) : undefined;
  // Without a push id nobody can tell whose object it is.
  if (meta['push'] === undefined) return refusal;
  const there = await lookAfter(write, isRefused);
  if (there?.meta['push'] !== meta['push']) return refusal;
  if (!write.isWhole(there)) throw otherBytes(bucket, key);
  return { kind: 'stored', tag: there.tag };
}

async function lookAfter({ bucket, key, signal }: Write, isRefused: boolean): Promise<Found | undefined> {
  try {
    return await look(bucket, key, isRefused ? { signal } : { signal, budgetMs: 0 });
  } catch (error) {
    // During an outage the look fails like the write. The write is retried, and its error says more.
    if (isRefused) throw error;
    signal?.throwIfAborted();
    return undefined;
  }
}

/** A generation that the key does not have any more never comes again, so what was refused stays refused. */
function refusalOf(precondition: Precondition | undefined): PutOutcome | undefined {
  if (precondition?.kind === 'absent') return { kind: 'exists' };
  return precondition?.kind === 'is' ? { kind: 'replaced-meanwhile' } : undefined;
}

export function otherBytes({ url }: Bucket, key: string): StoreError {
  return new StoreError('transient', `put ${url}/${key}: the store holds other bytes than were sent`, {
    hint: 'something between here and the store changes what is sent: check HTTPS_PROXY and the server',
  });
}
