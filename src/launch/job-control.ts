// Stops and continues the task together with us (Ctrl-Z and fg, a scheduler's suspend and resume).
// The shell that waits for us only takes the terminal back when we ourselves have stopped.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { relayRule } from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';
import { processEntry, sendSignal } from '../native/processes.ts';
import type { Broadcasts } from './signals.ts';
import type { Task } from './task.ts';

/** How long a task that handles SIGTSTP has to stop by itself. */
const STOP_BY_ITSELF_MS = 50;

export interface JobControlOptions {
  readonly sharesGroup: boolean;
  readonly broadcasts: Pick<Broadcasts, 'covers'>;
  /** Undefined when it does not run. */
  readonly task: () => Task | undefined;
  /** We go on, and were stopped for so long. */
  readonly onContinued: (stoppedMs: number) => void;
}

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
  const state = processEntry(pid)?.state;
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
