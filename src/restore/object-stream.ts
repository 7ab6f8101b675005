// The bytes of one object in order, from as many ranged requests at once as are useful. A body that breaks off
// is continued where it stopped, so that one reset does not cost a large download from its beginning.
import { setTimeout as sleep } from 'node:timers/promises';
import { type BackOff, linkSignals, pauseAfter } from '../model/waiting.ts';
import { type Store, StoreError } from '../store/contract/store.ts';

/** One request of a large object; so much memory for each request that is under way. */
export const RANGE_BYTES = 8 * 2 ** 20;
/** Breaks in a row without a single byte between them before an object is given up. */
const MOST_BREAKS = 5;
const BACK_OFF: BackOff = { firstMs: 100, mostMs: 1600 };

export interface StreamOptions {
  /** Requests under way at once, at least 1. */
  readonly parallel: number;
  /** What is expected, to know a large object without a request; undefined: it may be large. */
  readonly sizeHintBytes: number | undefined;
  readonly signal: AbortSignal;
}

/** Thrown while reading: the object is not there (any more). */
export class ObjectMissingError extends Error {
  constructor(key: string) {
    super(`${key} is not in the store`);
    this.name = 'ObjectMissingError';
  }
}

/** All bytes of the object. Throws {@link ObjectMissingError}, or what the store throws. */
export async function* objectStream(
  store: Store,
  key: string,
  { parallel, sizeHintBytes = Infinity, signal }: StreamOptions,
): AsyncGenerator<Uint8Array> {
  if (sizeHintBytes <= RANGE_BYTES || parallel === 1) {
    yield* steadily(store, key, undefined, signal);
    return;
  }
  const head = await store.head(key, signal);
  if (head === undefined) throw new ObjectMissingError(key);
  yield* inRanges(store, key, head.sizeBytes, { parallel, signal });
}

async function* inRanges(
  store: Store,
  key: string,
  sizeBytes: number,
  { parallel, signal }: Pick<StreamOptions, 'parallel' | 'signal'>,
): AsyncGenerator<Uint8Array> {
  const stop = new AbortController();
  const either = linkSignals(signal, stop.signal);
  const ahead: Promise<Uint8Array[]>[] = [];
  let next = 0;
  try {
    for (let at = 0; at < sizeBytes; at += RANGE_BYTES) {
      for (; ahead.length < parallel && next < sizeBytes; next += RANGE_BYTES) {
        const range = { first: next, last: Math.min(next + RANGE_BYTES, sizeBytes) - 1 };
        const whole = collect(steadily(store, key, range, either.signal));
        whole.catch(() => {}); // It is awaited below, unless the reader leaves first.
        ahead.push(whole);
      }
      // oxlint-disable-next-line no-await-in-loop -- in the order of the object; the next ones are on their way
      yield* (await ahead.shift()) ?? [];
    }
  } finally {
    stop.abort();
    await Promise.allSettled(ahead);
    either.unlink();
  }
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array[]> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

/** The bytes of a range, or of the whole object. */
async function* steadily(
  store: Store,
  key: string,
  range: { readonly first: number; readonly last: number } | undefined,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let at = range?.first ?? 0;
  let last = range?.last;
  for (let breaks = 0; breaks < MOST_BREAKS; breaks += 1) {
    const from = at;
    // oxlint-disable-next-line no-await-in-loop -- a continuation begins where the last body broke
    const got = await store.get(key, { range: last === undefined ? undefined : { first: at, last }, signal });
    if (got === undefined) throw new ObjectMissingError(key);
    last ??= got.sizeBytes - 1;
    let broke: unknown = new StoreError('transient', `get ${key}: the body ended early`);
    try {
      // oxlint-disable-next-line no-await-in-loop -- the body of this try
      for await (const chunk of got.body) {
        at += chunk.length;
        yield chunk;
      }
    } catch (error) {
      broke = error;
    }
    if (at > last) return;
    signal.throwIfAborted();
    if (at > from) breaks = 0;
    else if (breaks === MOST_BREAKS - 1) throw broke;
    // oxlint-disable-next-line no-await-in-loop -- the pause before the next try
    await sleep(pauseAfter(BACK_OFF, breaks), undefined, { signal });
  }
}
