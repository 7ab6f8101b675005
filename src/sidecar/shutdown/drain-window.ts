// The time for the end of the run: until the instant at which we are killed, if it is known, else `--drain-timeout`. A
// SIGTERM during the drain or a lost store shortens it; nothing extends it.
import { setTimeout as sleep } from 'node:timers/promises';
import { type BackOff, linkSignals, pauseAfter } from '../../model/waiting.ts';
import { type LongTimer, startTimer } from '../../native/clock.ts';
import { StoreError } from '../../store/contract/store.ts';
import { LOST_WAIT_MS, type Outage } from '../run/outage.ts';

/** Time kept for the last record if the end is known, ms. */
export const RECORD_MARGIN_MS = 1000;
/** After `--drain-timeout` nobody kills us: this much time is left for the record that names the files left behind. */
const RECORD_EXTRA_MS = 10_000;

export interface DrainWindow {
  /** Aborts when no more files may be sent. */
  readonly files: AbortSignal;
  /** Aborts when there is no time left for the last record either. */
  readonly record: AbortSignal;
  readonly lengthMs: number;
  /** We will be killed at this instant, ms since the epoch. */
  endBy(deadlineMs: number): void;
  close(): void;
}

interface DrainWindowOptions {
  /** When we are killed, ms since the epoch, if that is known. */
  readonly deadlineMs: number | undefined;
  readonly drainTimeoutMs: number;
  readonly now: () => number;
  /** Aborts everything: when the run is fenced, and when the window has ended. */
  readonly stop: AbortController;
}

export function openDrainWindow({ deadlineMs, drainTimeoutMs, now, stop }: DrainWindowOptions): DrainWindow {
  const files = openLimit('no time was left to send files', stop.signal);
  const record = openLimit('no time was left for the last record', stop.signal);
  // Requests that are still retried, and reclaims, must not delay the exit.
  record.signal.addEventListener('abort', () => stop.abort(record.signal.reason));
  const endBy = (atMs: number): void => {
    files.endIn(atMs - now() - RECORD_MARGIN_MS);
    record.endIn(atMs - now());
  };
  files.endIn(drainTimeoutMs);
  record.endIn(drainTimeoutMs + RECORD_EXTRA_MS);
  if (deadlineMs !== undefined) endBy(deadlineMs);
  return {
    files: files.signal,
    record: record.signal,
    lengthMs: Math.min(drainTimeoutMs, deadlineMs === undefined ? Infinity : deadlineMs - now()),
    endBy,
    close: () => {
      files.close();
      record.close();
    },
  };
}

interface Limit {
  readonly signal: AbortSignal;
  endIn(ms: number): void;
  close(): void;
}

/** Aborts at the earliest end that it was given. */
function openLimit(reason: string, signal: AbortSignal): Limit {
  const stop = new AbortController();
  const timers: LongTimer[] = [];
  const linked = linkSignals(stop.signal, signal);
  return {
    signal: linked.signal,
    endIn: (ms) => {
      const end = (): void => stop.abort(new Error(reason));
      if (ms <= 0) end();
      else timers.push(startTimer(ms, end));
    },
    close: () => {
      linked.unlink();
      for (const timer of timers) timer.cancel();
    },
  };
}

const BACK_OFF: BackOff = { firstMs: 250, mostMs: 15_000 };

/** Resolves to what `step` returns. Throws its last error once `signal` has aborted, or if a retry cannot help. */
export async function retryUntil<T>(step: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof StoreError) || signal.aborted) throw error;
      await sleep(pauseAfter(BACK_OFF, tries), undefined, { signal }).catch(() => undefined);
      if (signal.aborted) throw error;
    }
  }
}

const LOOK_EVERY_MS = 1000;

/**
 * Ends the drain once the store has been gone, or has been another one, for a whole minute. A file system may be
 * mounted again, so we wait for it as in any outage, but not for all of `--drain-timeout`: what the store held will
 * hardly return by itself.
 */
export function endWhenLost(
  outage: Pick<Outage, 'isLost'>,
  window: Pick<DrainWindow, 'endBy'>,
  now: () => number,
): { close(): void } {
  let sinceMs: number | undefined;
  const look = (): void => {
    sinceMs = outage.isLost ? (sinceMs ?? performance.now()) : undefined;
    if (sinceMs === undefined || performance.now() - sinceMs < LOST_WAIT_MS) return;
    clearInterval(timer);
    window.endBy(now());
  };
  const timer = setInterval(look, LOOK_EVERY_MS).unref();
  look();
  return { close: () => clearInterval(timer) };
}
