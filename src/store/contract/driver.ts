// What every driver does alike: tries an operation again while its failure is transient, and gives out a body that ends
// what it holds. The budget is time, not a number of tries: an outage of half a minute must cost a pause, never a file.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Shares } from '../../model/shares.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { StoreError } from './store.ts';

/**
 * What leads to servers, by kind and settings of the store: sockets, credentials, the server's time. Each driver knows
 * what its own are.
 */
export type Connections = Shares<Promise<Connection>>;

export interface Connection {
  close(): void;
}

/** How a failure is waited for: how long to pause before each next try, and for how many times the budget. */
interface Pace extends BackOff {
  readonly budgets: number;
}

const OUTAGE: Pace = { firstMs: 200, mostMs: 5000, budgets: 1 };

/**
 * A server that says that it is busy is there, and works for others: thousands of tasks of an array may have begun in
 * one second. To ask more often gains nothing for all of them together, and to give up after a minute starts only those
 * that it could serve in that minute. With pauses much longer than these, some of an array that is ended in one second
 * would not store their last record in the seconds that they have (docs/performance.md, `starts`).
 */
const BUSY: Pace = { firstMs: 1000, mostMs: 10_000, budgets: 10 };

/** A server that is asked again can have been left alone for so long, ms. */
export const LONGEST_PAUSE_MS = BUSY.mostMs;

export interface RetryRules {
  /**
   * From the first try on; ten times as long while the server is busy; 0 is one try. A try that is under way when it
   * runs out is not cut short.
   */
  readonly budgetMs: number;
  readonly signal?: AbortSignal;
  /** Told how each try went; undefined is a success. */
  readonly onTry?: (error: StoreError | undefined) => void;
}

/** What tells the time, and waits: a simulation has its own. */
export interface RetryClock {
  /** Ms since some instant. */
  now(): number;
  /** Rejects with the signal's reason once that aborts. */
  pause(ms: number, signal: AbortSignal | undefined): Promise<void>;
  /** In [0, 1). */
  luck(): number;
}

const REAL_CLOCK: RetryClock = { now: () => performance.now(), pause, luck: () => Math.random() };

/**
 * Runs `attempt` (told how many tries that makes, from 1) until it returns, throws anything but a {@link StoreError}
 * that is transient, busy or lost, or the budget is spent: then its last error comes out. An abort rejects with the
 * signal's reason, also in the middle of a pause.
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

/** Undefined if no retry can mend it. A directory that is gone may be mounted again in a moment. */
export function paceOf({ kind }: Pick<StoreError, 'kind'>): Pace | undefined {
  if (kind === 'busy') return BUSY;
  return kind === 'transient' || kind === 'lost' ? OUTAGE : undefined;
}

/**
 * Exponential back-off with full jitter: thousands of array tasks that met the same outage must not come back
 * in step. `luck` is in [0, 1).
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
 * Chunks that give up what they hold at their end, at a `break`, and when `return()` is called on them unread
 * (a generator that never started would skip its own `finally`). `release` may be called twice.
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
