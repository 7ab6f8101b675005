// Receives the launcher's signals, finds out which of them the task has already (the sidecar stands where the task stands,
// and reports what it saw), and stops and continues the task together with us. Which signals are relayed is decided in
// model/relay.ts.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import {
  BROADCAST_WINDOW_MS,
  JOB_SIGNALS,
  type JobSignal,
  relayRule,
  SIGHTING_LIFE_MS,
} from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';
import { readStat, sendSignal } from '../native/processes.ts';
import type { Task } from './task.ts';

/**
 * Listens for every job signal; one that the caller ignored (`nohup`) stays without effect. After `close` they all do: it is
 * decided with which status we end, and a signal's default action would end us with another one.
 */
export function listenForSignals(
  ignored: ReadonlySet<string>,
  received: (signal: JobSignal) => void,
): { close(): void } {
  const listeners = JOB_SIGNALS.map((signal) => {
    const listener = ignored.has(signal) ? () => undefined : () => received(signal);
    process.on(signal, listener);
    return { signal, listener };
  });
  return {
    close: () => {
      for (const { signal, listener } of listeners) {
        process.on(signal, () => undefined);
        process.removeListener(signal, listener);
      }
    },
  };
}

interface Waiting {
  readonly signal: JobSignal;
  answer(broadcast: boolean): void;
}

/** Pairs what the launcher received with what the sidecar saw; each report answers for one delivery. */
export class Broadcasts {
  readonly #waiting = new Set<Waiting>();
  #sightings: readonly { readonly signal: string; readonly atMs: number }[] = [];

  /** The sidecar received this signal. */
  seen(signal: string): void {
    const first = [...this.#waiting].find((entry) => entry.signal === signal);
    if (first === undefined) this.#sightings = [...this.#sightings, { signal, atMs: clockMs() }];
    else first.answer(true);
  }

  /** Resolves to true as soon as the sidecar has reported this signal, to false if the window ends without a report. */
  covers(signal: JobSignal): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#takeSighting(signal)) return resolve(true);
      const entry: Waiting = {
        signal,
        answer: (broadcast) => {
          clearTimeout(timer);
          this.#waiting.delete(entry);
          resolve(broadcast);
        },
      };
      const timer = setTimeout(() => entry.answer(false), BROADCAST_WINDOW_MS);
      this.#waiting.add(entry);
    });
  }

  /** Answers false to everything that still waits. */
  close(): void {
    for (const entry of this.#waiting) entry.answer(false);
  }

  #takeSighting(signal: JobSignal): boolean {
    const earliestMs = clockMs() - SIGHTING_LIFE_MS;
    const sightings = this.#sightings.filter(({ atMs }) => atMs >= earliestMs);
    const at = sightings.findIndex((sighting) => sighting.signal === signal);
    this.#sightings = at < 0 ? sightings : sightings.toSpliced(at, 1);
    return at >= 0;
  }
}

/** How long a task that handles SIGTSTP has to stop by itself. */
const STOP_BY_ITSELF_MS = 50;

interface JobControlOptions {
  readonly sharesGroup: boolean;
  readonly broadcasts: Pick<Broadcasts, 'covers'>;
  /** Undefined when it does not run. */
  readonly task: () => Task | undefined;
  /** We go on, and were stopped for so long. */
  readonly onContinued: (stoppedMs: number) => void;
}

/**
 * Stops and continues the task together with us (Ctrl-Z and fg, a scheduler's suspend and resume). The shell that waits
 * for us only takes the terminal back when we ourselves have stopped.
 */
export class JobControl {
  readonly #options: JobControlOptions;
  #stopping: AbortController | undefined;

  constructor(options: JobControlOptions) {
    this.#options = options;
  }

  /** SIGTSTP came: stops the task, then us, and resolves when we go on. */
  async stop(): Promise<void> {
    if (this.#stopping !== undefined) return;
    const { sharesGroup, broadcasts, onContinued } = this.#options;
    const stopping = new AbortController();
    this.#stopping = stopping;
    const rule = relayRule('SIGTSTP', sharesGroup);
    const hasIt = rule === 'unless-broadcast' && (await broadcasts.covers('SIGTSTP'));
    const task = this.#options.task();
    if (task !== undefined && !stopping.signal.aborted) await stopTask(task, hasIt, stopping.signal);
    // A stop that was taken back before it took place must not leave us asleep for ever. SIGCONT may have come
    // and not been told yet: signals are told when the event loop polls, and timers that are late go before that.
    await nextTurn();
    this.#stopping = undefined;
    if (!stopping.signal.aborted) onContinued(stopOurselves(sharesGroup));
  }

  /** SIGCONT came: a stop that has not taken place yet is off. */
  continued(): void {
    this.#stopping?.abort();
  }
}

/**
 * Stops the task, unless it has the signal already. In a session of its own its group is an orphaned one,
 * where the kernel ignores SIGTSTP's default action (setpgid(2)): what has not stopped gets SIGSTOP.
 * Returns at once when `signal` aborts: it was continued meanwhile.
 */
async function stopTask(task: Task, hasIt: boolean, signal: AbortSignal): Promise<void> {
  if (!hasIt) task.signal('SIGTSTP');
  if (task.sharesGroup) return;
  await sleep(STOP_BY_ITSELF_MS, undefined, { signal }).catch(() => undefined);
  if (signal.aborted) return;
  if (task.members().some((pid) => !isStopped(pid))) task.signal('SIGSTOP');
}

function isStopped(pid: number): boolean {
  const state = readStat(pid)?.state;
  return state === undefined || state === 'T' || state === 't';
}

/** Stops us until somebody sends SIGCONT; returns for how long that was, in ms. */
function stopOurselves(sharesGroup: boolean): number {
  const stoppedAtMs = clockMs();
  if (sharesGroup) stopAsTheTerminalSays();
  else sendSignal(process.pid, 'SIGSTOP');
  return clockMs() - stoppedAtMs;
}

/**
 * With SIGTSTP's default action, not SIGSTOP: where no shell of our session could ever continue us, the
 * kernel then leaves us running, as it leaves the task.
 */
function stopAsTheTerminalSays(): void {
  const listeners = process.listeners('SIGTSTP');
  process.removeAllListeners('SIGTSTP');
  sendSignal(process.pid, 'SIGTSTP');
  for (const listener of listeners) process.on('SIGTSTP', listener);
}
