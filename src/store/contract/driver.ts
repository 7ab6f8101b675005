// What all drivers share: they retry operations while failures are transient, and return bodies that release their
// resources at their end. The retry budget is a time, not a number of tries: an outage of half a minute must cost a
// pause, never a file.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Share, Shares } from '../../model/shares.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { StoreError } from './store.ts';

/**
 * Resources for connections to servers, by kind and settings of the store: sockets, credentials, the server's time.
 * Each driver defines its own.
 */
export type Connections = Shares<Promise<Connection>>;

export interface Connection {
  close(): void;
}

/** A connection that all stores with this key share. */
export async function sharedConnection<C extends Connection>(
  connections: Connections,
  key: string,
  open: () => Promise<C>,
): Promise<C> {
  const share = connections.take(key, open) as Share<Promise<C>>;
  try {
    return { ...(await share.value), close: () => void share.release() };
  } catch (error) {
    await share.release();
    throw error;
  }
}

/** How a kind of failure is retried: the pauses between tries, and a factor for the budget. */
interface Pace extends BackOff {
  readonly budgets: number;
}

const OUTAGE: Pace = { firstMs: 200, mostMs: 5000, budgets: 1 };

/**
 * A server that answers "busy" is available, but serves others: thousands of tasks of an array may have started within
 * one second. More frequent retries would not help them overall. If each gave up after a minute, only the tasks that
 * the server can serve in that minute would start. With much longer pauses, some tasks of an array that is ended within
 * one second could not store their last record in the seconds that they have (docs/dev/performance/arrays.md).
 */
const BUSY: Pace = { firstMs: 1000, mostMs: 10_000, budgets: 10 };

/** The longest time between two tries, ms. */
export const LONGEST_PAUSE_MS = BUSY.mostMs;

export interface RetryRules {
  /**
   * Counts from the first try. Ten times as long while the server is busy; 0 is one try. A running try is not
   * interrupted when the budget ends.
   */
  readonly budgetMs: number;
  readonly signal?: AbortSignal;
  /** Called with the result of each try; undefined is a success. */
  readonly onTry?: (error: StoreError | undefined) => void;
}

/** Clock, pauses and random numbers. A simulation has its own. */
export interface RetryClock {
  /** Ms since an arbitrary instant. */
  now(): number;
  /** Rejects with the signal's reason once it aborts. */
  pause(ms: number, signal: AbortSignal | undefined): Promise<void>;
  /** A random number in [0, 1). */
  luck(): number;
}

const REAL_CLOCK: RetryClock = { now: () => performance.now(), pause, luck: () => Math.random() };

/**
 * Calls `attempt` with the number of the try, from 1. Retries while it throws a {@link StoreError} that is transient,
 * busy or lost, until the budget is spent; then it throws the last error. An abort rejects with the signal's reason,
 * also during a pause.
 */
export async function retrying<T>(
  attempt: (tries: number) => Promise<T>,
  rules: RetryRules,
  clock = REAL_CLOCK,
): Promise<T> {
  const startMs = clock.now();
  for (let tries = 1; ; tries += 1) {
    rules.signal?.throwIfAborted();
    try {
      const answer = await attempt(tries);
      rules.onTry?.(undefined);
      return answer;
    } catch (error) {
      if (error instanceof StoreError) rules.onTry?.(error);
      const pace = error instanceof StoreError ? paceOf(error) : undefined;
      if (pace === undefined) throw error;
      const leftMs = startMs + rules.budgetMs * pace.budgets - clock.now();
      if (leftMs <= 0) throw error;
      await clock.pause(Math.min(leftMs, pauseMs(pace, tries, clock.luck())), rules.signal);
    }
  }
}

/** Undefined if a retry cannot help. A directory that is gone may be mounted again in a moment. */
export function paceOf({ kind }: Pick<StoreError, 'kind'>): Pace | undefined {
  if (kind === 'busy') return BUSY;
  return kind === 'transient' || kind === 'lost' ? OUTAGE : undefined;
}

/**
 * Exponential back-off with full jitter: thousands of array tasks that met the same outage must not retry in step.
 * `luck` is in [0, 1).
 */
export function pauseMs(pace: BackOff, tries: number, luck: number): number {
  return luck * pauseAfter(pace, tries - 1);
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/**
 * Chunks that release their resource at the end, at a `break`, and when `return()` is called before the first read (a
 * generator that never started would skip its own `finally`). `release` may be called twice.
 */
export function releasing(
  chunks: AsyncGenerator<Uint8Array>,
  release: () => Promise<void>,
): AsyncIterableIterator<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => chunks.next(),
    return: async () => {
      await chunks.return(undefined);
      await release();
      return { done: true, value: undefined };
    },
  };
}

/** The first chunks of a body: all of them, or more than `bytes`. */
export async function firstChunks(body: AsyncIterator<Uint8Array>, bytes: number): Promise<Uint8Array[]> {
  const ahead: Uint8Array[] = [];
  for (let left = bytes; left >= 0;) {
    // oxlint-disable-next-line no-await-in-loop -- one chunk after the other
    const next = await body.next();
    if (next.done === true) break;
    ahead.push(next.value);
    left -= next.value.byteLength;
  }
  return ahead;
}

/** The first chunks of a body, and the rest of it. */
export async function* joined(
  head: readonly Uint8Array[],
  rest?: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield* head;
  if (rest === undefined) return;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
}

/**
 * Gives a body of at most one chunk to `whole`, and a longer one to `parts`. Nothing is sent before the body has
 * continued or ended without an error: a file that changed while it was read throws at its end.
 */
export async function wholeOrParts<T>(
  body: Uint8Array | AsyncIterable<Uint8Array>,
  whole: (bytes: Uint8Array) => Promise<T>,
  parts: (first: Uint8Array, second: Uint8Array, rest: AsyncIterator<Uint8Array>) => Promise<T>,
): Promise<T> {
  if (body instanceof Uint8Array) return whole(body);
  const chunks = body[Symbol.asyncIterator]();
  try {
    const first = await chunks.next();
    if (first.done === true) return await whole(new Uint8Array(0));
    const second = await chunks.next();
    if (second.done === true) return await whole(first.value);
    return await parts(first.value, second.value, chunks);
  } finally {
    await chunks.return?.();
  }
}

/** True if a body holds exactly these bytes. Stops reading at the first difference. */
export async function holds(body: AsyncIterable<Uint8Array>, bytes: Uint8Array): Promise<boolean> {
  let at = 0;
  for await (const chunk of body) {
    const end = at + chunk.length;
    if (Buffer.compare(chunk, bytes.subarray(at, end)) !== 0) return false;
    at = end;
  }
  return at === bytes.length;
}
