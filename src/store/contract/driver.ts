// What every driver does alike: tries an operation again while its failure is transient, and gives out a body that ends
// what it holds. The budget is time, not a number of tries: an outage of half a minute must cost a pause, never a file.
import { setTimeout as sleep } from 'node:timers/promises';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { StoreError } from './store.ts';

const BACK_OFF: BackOff = { firstMs: 200, mostMs: 5000 };

export interface RetryRules {
  /** From the first try on; 0 is one try. A try that is under way when it runs out is not cut short. */
  readonly budgetMs: number;
  readonly signal?: AbortSignal;
  /** Told how each try went; undefined is a success. */
  readonly onTry?: (error: StoreError | undefined) => void;
}

/**
 * Runs `attempt` (told how many tries that makes, from 1) until it returns, throws anything but a {@link StoreError}
 * that is transient or lost, or the budget is spent: then its last error comes out. An abort rejects with the
 * signal's reason, also in the middle of a pause.
 */
export async function retrying<T>(attempt: (tries: number) => Promise<T>, rules: RetryRules): Promise<T> {
  const endMs = performance.now() + rules.budgetMs;
  for (let tries = 1; ; tries += 1) {
    rules.signal?.throwIfAborted();
    try {
      const answer = await attempt(tries);
      rules.onTry?.(undefined);
      return answer;
    } catch (error) {
      if (error instanceof StoreError) rules.onTry?.(error);
      const leftMs = endMs - performance.now();
      if (!(error instanceof StoreError) || !mayMend(error) || leftMs <= 0) throw error;
      await pause(Math.min(leftMs, pauseMs(tries, Math.random())), rules.signal);
    }
  }
}

/** A directory that is gone may be mounted again in a moment. */
function mayMend({ kind }: StoreError): boolean {
  return kind === 'transient' || kind === 'lost';
}

/**
 * Exponential back-off with full jitter: thousands of array tasks that met the same outage must not come back
 * in step. `luck` is in [0, 1).
 */
export function pauseMs(tries: number, luck: number): number {
  return luck * pauseAfter(BACK_OFF, tries - 1);
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
