// What changes once we know that we will be stopped, while the task still runs: closed files are pushed without
// pacing and the most important first, companions are sent, and the launcher is told how long the rest takes.
import { reasonOf } from '../../model/errors.ts';
import { whileLinked } from '../../model/waiting.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { Flush } from '../control/flush.ts';
import type { Files } from '../queue/files.ts';
import type { Needs } from '../run/context.ts';
import { type DrainWindow, RECORD_MARGIN_MS } from './drain-window.ts';

/** What it takes of the run. */
type Uses = Needs<'log' | 'signal'>;

/** How often the launcher is told how long the drain takes; only while a deadline is known. */
const TELL_EVERY_MS = 1000;

export interface StoppingOptions {
  readonly context: Uses;
  readonly files: Files;
  readonly generations: Generations;
  readonly flush: Flush;
  /** How long sending the task's last files takes, as measured, ms. */
  readonly onDrainTakes: (ms: number) => void;
}

export interface Stopping {
  /** When the task was first asked to end, ms since the epoch. */
  readonly signalledAtMs: number | undefined;
  /** A signal that asks the task to end is on its way to it. */
  taskSignalled(atMs: number): void;
  /** We will be stopped at this instant, ms since the epoch; undefined: it was taken back. */
  noticed(deadlineMs: number | undefined): void;
  /** Nothing is certain yet, but what is closed by now should be made safe. */
  advised(): void;
  /** The drain has begun; a deadline from now on is a deadline for it. */
  drains(window: DrainWindow): void;
  close(): void;
}

export function openStopping({
  context,
  files,
  generations,
  flush,
  onDrainTakes,
}: StoppingOptions): Stopping {
  const ending = new AbortController();
  let window: DrainWindow | undefined;
  let signalledAtMs: number | undefined;
  let timer: NodeJS.Timeout | undefined;

  const hurry = (): void => {
    generations.stopping();
    whileLinked([ending.signal, context.signal], (signal) => flush(signal, false)).catch((error: unknown) =>
      context.log.debug(`a flush ended early: ${reasonOf(error)}`),
    );
  };
  const tell = (): void => {
    const takesMs = files.drainMs;
    if (takesMs !== undefined) onDrainTakes(Math.round(takesMs));
  };
  return {
    get signalledAtMs() {
      return signalledAtMs;
    },
    taskSignalled: (atMs) => {
      // Once the task is gone, no close can be a death's any more.
      if (window !== undefined) return;
      signalledAtMs ??= atMs;
      files.holdReplacing(true);
      generations.stopping(atMs);
    },
    noticed: (deadlineMs) => {
      files.deadline(deadlineMs === undefined ? undefined : deadlineMs - RECORD_MARGIN_MS);
      clearInterval(timer);
      if (deadlineMs === undefined) return;
      if (window !== undefined) return window.endBy(deadlineMs);
      hurry();
      tell();
      timer = setInterval(tell, TELL_EVERY_MS).unref();
    },
    advised: () => {
      if (window === undefined) hurry();
    },
    drains: (opened) => {
      window = opened;
      ending.abort();
      clearInterval(timer);
    },
    close: () => {
      ending.abort();
      clearInterval(timer);
    },
  };
}
