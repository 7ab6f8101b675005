// The bytes of one object in order, by as many concurrent ranged requests as are useful. A broken body is continued
// where it stopped, so a reset does not restart a large download.
import { setTimeout as sleep } from 'node:timers/promises';
import { type BackOff, linkSignals, pauseAfter } from '../model/waiting.ts';
import { type ObjectHead, type Store, StoreError } from '../store/contract/store.ts';
import { CorruptError } from './failure.ts';

/** The size of one request of a large object; each concurrent request takes this much memory. */
export const RANGE_BYTES = 8 * 2 ** 20;
/** After this many breaks in a row without a single byte, an object is given up. */
const MOST_BREAKS = 5;
const BACK_OFF: BackOff = { firstMs: 100, mostMs: 1600 };

export interface StreamOptions {
  /** Concurrent requests, at least 1. */
  readonly parallel: number;
  /**
   * The size of the content, bytes: a large object is recognised without a request, and one that is larger than its
   * content can be is refused. Undefined: it may have any size.
   */
  readonly sizeHintBytes: number | undefined;
  readonly signal: AbortSignal;
  /** A sealed object is not opened. */
  readonly isAsStored?: boolean | undefined;
  /** Called for each object that is read, before its bytes come. */
  readonly onObject?: ((head: Pick<ObjectHead, 'permissions'>) => void) | undefined;
}

/** Thrown while reading: the object does not exist, or no longer. */
export class ObjectMissingError extends Error {
  constructor(key: string) {
    super(`${key} is not in the store`);
    this.name = 'ObjectMissingError';
  }
}

/** Thrown while reading: somebody has stored another object under the key. The bytes read so far belong to neither. */
export class ReplacedError extends CorruptError {
  constructor(key: string) {
    super(`${key} was replaced while it was read`);
    this.name = 'ReplacedError';
  }
}

/**
 * All bytes of the object, each of the state that the first answer had; of a sealed object those that were sealed. Throws
 * {@link ObjectMissingError}, {@link ReplacedError}, CorruptError if it is larger than its content can be or does not
 * open, or the store's error.
 */
export async function* objectStream(
  store: Store,
  key: string,
  options: StreamOptions,
): AsyncGenerator<Uint8Array> {
  const unseal = options.isAsStored === true ? undefined : store.sealed?.opening(key);
  const stored = storedBytes(store, key, options);
  yield* unseal === undefined ? stored : unseal(stored);
}

async function* storedBytes(
  store: Store,
  key: string,
  { parallel, sizeHintBytes = Infinity, signal, onObject }: StreamOptions,
): AsyncGenerator<Uint8Array> {
  const mostBytes = mostStoredBytes(sizeHintBytes);
  const one: OneState = { tag: undefined };
  if (sizeHintBytes > RANGE_BYTES && parallel > 1) {
    const head = await store.head(key, signal);
    if (head === undefined) throw new ObjectMissingError(key);
    if (head.sizeBytes > mostBytes) throw tooLarge(key);
    one.tag = head.tag;
    if (head.sizeBytes > RANGE_BYTES) {
      onObject?.(head);
      yield* inRanges(store, key, head.sizeBytes, { one, parallel, signal, onObject });
      return;
    }
  }
  yield* atMost(withRetries(store, key, undefined, { one, signal, onObject }), key, mostBytes);
}

/** The tag of the state that is read, once an answer has named it. */
interface OneState {
  tag: string | undefined;
}

interface ReadingOptions extends Pick<StreamOptions, 'signal' | 'onObject'> {
  readonly one: OneState;
}

/** Content that does not shrink grows by less than this when it is compressed (ZSTD_compressBound of zstd.h). */
function mostStoredBytes(sizeBytes: number): number {
  return sizeBytes + sizeBytes / 128 + 2 ** 20;
}

/** zstd frames may be of any size and hold nothing. */
async function* atMost(
  bytes: AsyncIterable<Uint8Array>,
  key: string,
  mostBytes: number,
): AsyncGenerator<Uint8Array> {
  let at = 0;
  for await (const chunk of bytes) {
    at += chunk.length;
    if (at > mostBytes) throw tooLarge(key);
    yield chunk;
  }
}

function tooLarge(key: string): CorruptError {
  return new CorruptError(`${key} is larger than its content can be`);
}

async function* inRanges(
  store: Store,
  key: string,
  sizeBytes: number,
  { one, parallel, signal, onObject }: ReadingOptions & Pick<StreamOptions, 'parallel'>,
): AsyncGenerator<Uint8Array> {
  const stop = new AbortController();
  const either = linkSignals(signal, stop.signal);
  const ahead: Promise<Uint8Array[]>[] = [];
  let next = 0;
  try {
    for (let at = 0; at < sizeBytes; at += RANGE_BYTES) {
      for (; ahead.length < parallel && next < sizeBytes; next += RANGE_BYTES) {
        const range = { first: next, last: Math.min(next + RANGE_BYTES, sizeBytes) - 1 };
        const whole = collect(withRetries(store, key, range, { one, signal: either.signal, onObject }));
        whole.catch(() => {}); // It is awaited below, unless the reader stops first.
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

/**
 * The bytes of a range, or of the whole object. While its length is unknown, only the end of a body is its end. After a
 * break it may have ended right there, where no range begins: the last byte is asked for again, too.
 */
async function* withRetries(
  store: Store,
  key: string,
  range: { readonly first: number; readonly last: number } | undefined,
  { one, signal, onObject }: ReadingOptions,
): AsyncGenerator<Uint8Array> {
  let at = range?.first ?? 0;
  let last = range?.last;
  for (let breaks = 0; breaks < MOST_BREAKS; breaks += 1) {
    const from = at;
    const first = last === undefined ? Math.max(at - 1, 0) : at;
    const isWhole = last === undefined && first === 0;
    const asked = isWhole ? undefined : { first, last: last ?? Number.MAX_SAFE_INTEGER };
    // oxlint-disable-next-line no-await-in-loop -- a continuation begins where the last body broke
    const got = await store.get(key, { range: asked, signal });
    if (got === undefined) throw new ObjectMissingError(key);
    one.tag ??= got.tag;
    if (got.tag !== one.tag) {
      // oxlint-disable-next-line no-await-in-loop -- it ends here
      await got.body[Symbol.asyncIterator]().return?.();
      throw new ReplacedError(key);
    }
    onObject?.(got);
    if (got.sizeBytes !== undefined) last ??= got.sizeBytes - 1;
    let known = at - first;
    let broke: unknown = new StoreError('transient', `get ${key}: the body ended early`);
    try {
      // oxlint-disable-next-line no-await-in-loop -- the body of this try
      for await (const chunk of got.body) {
        const fresh = chunk.subarray(known);
        known -= chunk.length - fresh.length;
        at += fresh.length;
        yield fresh;
      }
      if (last === undefined) return;
    } catch (error) {
      broke = error;
    }
    if (last !== undefined && at > last) return;
    signal.throwIfAborted();
    if (at > from) breaks = 0;
    else if (breaks === MOST_BREAKS - 1) throw broke;
    // oxlint-disable-next-line no-await-in-loop -- the pause before the next try
    await sleep(pauseAfter(BACK_OFF, breaks), undefined, { signal });
  }
}
