// Helpers for waiting: a promise that callbacks settle, one signal made of several, a limit on concurrent work, the
// pause before a retry, and waiting for the next change. None of them uses a timer.
import { setMaxListeners } from 'node:events';

/** A promise that is settled from outside. Promise.withResolvers does the same from Node 22 on. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

/** Its rejection is never reported as unhandled if nobody awaits it: whoever rejects it also reports it elsewhere. */
export function newDeferred<T>(): Deferred<T> {
  let settle: Omit<Deferred<T>, 'promise'> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  promise.catch(() => undefined);
  return { promise, resolve: (value) => settle?.resolve(value), reject: (reason) => settle?.reject(reason) };
}

/**
 * One signal made of several, for a piece of work. It is linked when the work begins and unlinked when it ends, so the
 * signal of a run keeps nothing of its 200,000 pushes. (AbortSignal.any keeps 1.2 KB of each on Node 20.)
 */
export interface LinkedSignal {
  /** Aborts with the first of the linked signals, and with its reason. */
  readonly signal: AbortSignal;
  /** Stops listening. */
  unlink(): void;
}

/** The caller must unlink. An undefined signal never aborts. */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const linked = new AbortController();
  // Many requests of one piece of work listen at once: that is not a leak.
  setMaxListeners(0, linked.signal);
  const stops: (() => void)[] = [];
  const unlink = (): void => {
    for (const stop of stops.splice(0)) stop();
  };
  for (const signal of signals) {
    if (signal === undefined) continue;
    const abort = (): void => {
      linked.abort(signal.reason);
      unlink();
    };
    if (signal.aborted) {
      abort();
      break;
    }
    // Many pieces of work may listen at once, too.
    setMaxListeners(0, signal);
    signal.addEventListener('abort', abort);
    stops.push(() => signal.removeEventListener('abort', abort));
  }
  return { signal: linked.signal, unlink };
}

/** The result of `work`, or the signal's reason once it aborts. The work itself goes on. */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
  });
  setMaxListeners(0, signal);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Runs `act` with a linked signal, and unlinks it afterwards. */
export async function whileLinked<T>(
  signals: readonly (AbortSignal | undefined)[],
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, unlink } = linkSignals(...signals);
  try {
    return await act(signal);
  } finally {
    unlink();
  }
}

/**
 * Calls `act` for each item, at most `most` at once, and takes the next item only when a slot is free. (p-limit, used
 * for fewer items, keeps every waiting one in memory.) After a failure it takes no further item, and waits for the
 * calls in progress.
 */
export async function forEachAtOnce<T>(
  items: Iterable<T> | AsyncIterable<T>,
  most: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const left = inTurn(items);
  const failures: unknown[] = [];
  const takeTurns = async (): Promise<void> => {
    while (failures.length === 0) {
      const next = await left.next();
      if (next.done === true) return;
      await act(next.value);
    }
  };
  const turns = Array.from({ length: most }, () =>
    takeTurns().catch((error: unknown) => {
      failures.push(error);
    }),
  );
  await Promise.all(turns);
  if (failures.length > 0) throw failures[0];
}

/** Serialises the callers: a generator answers one `next` after the other. */
async function* inTurn<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield* items;
}

/**
 * Yields what `read` returns for each item, in the order of the items. At most `most` are being read or waiting to be
 * taken. If a read fails, its error is thrown in its turn.
 */
export async function* readAhead<T, R>(
  items: Iterable<T>,
  most: number,
  read: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const ahead: Promise<R>[] = [];
  for (const item of items) {
    const reading = read(item);
    // The error is thrown where the read is awaited; until then it must not count as unhandled.
    reading.catch(() => undefined);
    ahead.push(reading);
    const first = ahead.length < most ? undefined : ahead.shift();
    if (first !== undefined) yield await first;
  }
  for (const reading of ahead) yield await reading;
}

/** How long to pause before the next try. Each pause is longer than the one before. */
export interface BackOff {
  readonly firstMs: number;
  readonly mostMs: number;
  /** Each pause is this many times as long as the one before; 2 by default. */
  readonly factor?: number;
}

/** The pause after `before` earlier pauses: `firstMs`, then `factor` times longer each time, up to `mostMs`. */
export function pauseAfter({ firstMs, mostMs, factor = 2 }: BackOff, before: number): number {
  return Math.min(mostMs, firstMs * factor ** before);
}

/** Something that changes repeatedly. Whoever waits for its next change then looks at it again. */
export class Changes {
  #listeners: (() => void)[] = [];

  notify(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }

  /** Resolves at the next change, or when `signal` aborts. */
  async next(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        resolve();
      };
      signal.addEventListener('abort', done, { once: true });
      this.#listeners.push(done);
    });
  }
}
