// Receives the launcher's signals, finds out which of them the task has received too (the sidecar is in the task's
// place, and reports its own signals), and stops and continues the task together with the launcher. model/relay.ts
// decides which signals are relayed.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import {
  asksToEnd,
  BROADCAST_WINDOW_MS,
  canEndTask,
  JOB_SIGNALS,
  type JobSignal,
  relayRule,
  SIGHTING_LIFE_MS,
} from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';
import { readStat, sendSignal } from '../native/processes.ts';
import type { Task } from './task.ts';

/**
 * Listens for every job signal; one that the caller ignored (`nohup`) stays without effect. After `close` all of them
 * are ignored: the exit status is decided, and a signal's default action would change it.
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

export interface KeptSignals {
  /** Aborted by the first signal that asks capture to end. */
  readonly asked: AbortSignal;
  /** From now on others listen; they get what came so far, in order. */
  passOn(received: (signal: JobSignal) => void): void;
}

/**
 * Keeps the signals that come before {@link listenForSignals}: their default action would end a run that could still
 * say so. `notices`: those of `--notice-on`.
 */
export function keepSignals(ignored: ReadonlySet<string>, notices: readonly string[]): KeptSignals {
  const asked = new AbortController();
  const kept: JobSignal[] = [];
  const listeners = JOB_SIGNALS.filter(canEndTask).map((signal) => {
    const listener = (): void => {
      if (ignored.has(signal)) return;
      kept.push(signal);
      if (asksToEnd(signal) || notices.includes(signal)) asked.abort(new Error(signal));
    };
    process.on(signal, listener);
    return { signal, listener };
  });
  return {
    asked: asked.signal,
    passOn: (received) => {
      for (const { signal, listener } of listeners) process.removeListener(signal, listener);
      kept.forEach(received);
    },
  };
}

interface Waiting {
  readonly signal: JobSignal;
  answer(broadcast: boolean): void;
}

/** Pairs the launcher's signals with the sidecar's; each report counts for one delivery. */
export class Broadcasts {
  readonly #waiting = new Set<Waiting>();
  #sightings: readonly { readonly signal: string; readonly atMs: number }[] = [];

  /** The sidecar received this signal. */
  seen(signal: string): void {
    const first = [...this.#waiting].find((entry) => entry.signal === signal);
    if (first === undefined) this.#sightings = [...this.#sightings, { signal, atMs: clockMs() }];
    else first.answer(true);
  }

  /** Resolves to true as soon as the sidecar reports this signal, or to false if the window ends without a report. */
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

  /** Answers false to all pending calls. */
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
  /** Undefined if the task does not run. */
  readonly task: () => Task | undefined;
  /** Called after a suspension of this length. */
  readonly onContinued: (stoppedMs: number) => void;
}

/**
 * Stops and continues the task together with the launcher (Ctrl-Z and fg, a scheduler's suspend and resume). The shell
 * takes the terminal back only when the launcher itself has stopped.
 */
export class JobControl {
  readonly #options: JobControlOptions;
  #stopping: AbortController | undefined;

  constructor(options: JobControlOptions) {
    this.#options = options;
  }

  /** SIGTSTP came: stops the task, then this process, and resolves when it continues. */
  async stop(): Promise<void> {
    if (this.#stopping !== undefined) return;
    const { sharesGroup, broadcasts, onContinued } = this.#options;
    const stopping = new AbortController();
    this.#stopping = stopping;
    const rule = relayRule('SIGTSTP', sharesGroup);
    const hasIt = rule === 'unless-broadcast' && (await broadcasts.covers('SIGTSTP'));
    const task = this.#options.task();
    if (task !== undefined && !stopping.signal.aborted) await stopTask(task, hasIt, stopping.signal);
    // If SIGCONT cancels a stop before it takes place, this process must not stop for ever. SIGCONT may be pending:
    // signals are delivered when the event loop polls, and late timers run before that.
    await nextTurn();
    this.#stopping = undefined;
    if (!stopping.signal.aborted) onContinued(stopOurselves(sharesGroup));
  }

  /** SIGCONT came: a stop that has not taken place yet is cancelled. */
  continued(): void {
    this.#stopping?.abort();
  }
}

/**
 * Stops the task, unless it has the signal already. In its own session its group is orphaned, and there the kernel
 * ignores SIGTSTP's default action (setpgid(2)): a process that has not stopped gets SIGSTOP. Returns at once when
 * `signal` aborts: the stop was cancelled.
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

/** Stops this process until it gets SIGCONT; returns how long that took, in ms. */
function stopOurselves(sharesGroup: boolean): number {
  const stoppedAtMs = clockMs();
  if (sharesGroup) stopAsTheTerminalSays();
  else sendSignal(process.pid, 'SIGSTOP');
  return clockMs() - stoppedAtMs;
}

/**
 * By SIGTSTP's default action, not SIGSTOP: if no shell of this session could ever continue the process, the kernel
 * leaves it running, as it does the task.
 */
function stopAsTheTerminalSays(): void {
  const listeners = process.listeners('SIGTSTP');
  process.removeAllListeners('SIGTSTP');
  sendSignal(process.pid, 'SIGTSTP');
  for (const listener of listeners) process.on('SIGTSTP', listener);
}
