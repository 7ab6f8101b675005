// How work waits: a promise that several callbacks settle together, one signal made of several, a few of very many
// things at a time, how long to pause before the next try, and for the next change of something. Nothing in it keeps
// time itself.
import { setMaxListeners } from 'node:events';

/** A promise that is settled from outside. Promise.withResolvers does the same from Node 22 on. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(reason: unknown): void;
}

/** A rejection that nobody awaits is not reported as unhandled: whoever rejects it says so in another way, too. */
export function newDeferred<T>(): Deferred<T> {
  let settle: Omit<Deferred<T>, 'promise'> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  promise.catch(() => undefined);
  return { promise, resolve: (value) => settle?.resolve(value), reject: (reason) => settle?.reject(reason) };
}

/**
 * One signal made of several, for a piece of work: linked when it begins and unlinked when it ends, so that the signal
 * of a whole run keeps nothing of each of its 200,000 pushes. (AbortSignal.any does: 1.2 KB, Node 20.)
 */
export interface LinkedSignal {
  /** Aborts with the first of them, and with its reason. */
  readonly signal: AbortSignal;
  /** Listens no longer. */
  unlink(): void;
}

/** Whoever links must unlink. Signals that are undefined never abort. */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const linked = new AbortController();
  // Many requests of one piece of work listen at once: that is no leak.
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
    // And so may many pieces of work.
    setMaxListeners(0, signal);
    signal.addEventListener('abort', abort);
    stops.push(() => signal.removeEventListener('abort', abort));
  }
  return { signal: linked.signal, unlink };
}

/** Runs `act` with a signal that is linked for as long as that takes. */
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
 * Calls `act` for each item, at most `most` at once, and takes the next only when its turn comes: p-limit, which
 * everything with fewer items uses, keeps each one that waits. After a failure no other is taken, and those under way
 * are waited for.
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

/** Whoever asks while another waits comes after it. */
async function* inTurn<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield* items;
}

/**
 * What `read` gives for each item, in the order of the items; at most `most` are read or wait to be taken at a time. If
 * one fails, its error comes out in its turn.
 */
export async function* readAhead<T, R>(
  items: Iterable<T>,
  most: number,
  read: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const ahead: Promise<R>[] = [];
  for (const item of items) {
    const reading = read(item);
    // Told where it is awaited; until then it is no unhandled rejection.
    reading.catch(() => undefined);
    ahead.push(reading);
    const first = ahead.length < most ? undefined : ahead.shift();
    if (first !== undefined) yield await first;
  }
  for (const reading of ahead) yield await reading;
}

/** How long to wait before the next try: longer each time, so that nothing is asked all the time. */
export interface BackOff {
  readonly firstMs: number;
  readonly mostMs: number;
  /** Each pause is this many times as long as the one before; 2 if it is left out. */
  readonly factor?: number;
}

/**
 * The pause after `before` others, counted from 0: `firstMs`, then `factor` times as long each time, up to `mostMs`.
 */
export function pauseAfter({ firstMs, mostMs, factor = 2 }: BackOff, before: number): number {
  return Math.min(mostMs, firstMs * factor ** before);
}

/** Something that changes again and again, and whoever waits for its next change to look at it anew. */
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
