// Stops and continues the task together with us (Ctrl-Z and fg, a scheduler's suspend and resume).
// The shell that waits for us only takes the terminal back when we ourselves have stopped.
import { setTimeout as sleep } from 'node:timers/promises';
import { clockMs } from '../native/clock.ts';
import { processEntry, sendSignal } from '../native/processes.ts';

/** How long a task that handles SIGTSTP has to stop by itself. */
const STOP_BY_ITSELF_MS = 50;

export interface Stoppable {
  readonly sharesGroup: boolean;
  signal(signal: NodeJS.Signals): void;
  members(): readonly number[];
}

/**
 * Stops the task, unless it has the signal already. In a session of its own its group is an orphaned one,
 * where the kernel ignores SIGTSTP's default action (setpgid(2)): what has not stopped gets SIGSTOP.
 * Returns at once when `signal` aborts: it was continued meanwhile.
 */
export async function stopTask(task: Stoppable, hasIt: boolean, signal: AbortSignal): Promise<void> {
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
export function stopOurselves(sharesGroup: boolean): number {
  const stoppedAtMs = clockMs();
  if (sharesGroup) stopAsTheTerminalSays();
  else sendSignal(process.pid, 'SIGSTOP');
  return clockMs() - stoppedAtMs;
}

/**
 * With SIGTSTP's default action, not SIGSTOP: where no shell of our session could ever continue us the
 * kernel then leaves us running, as it leaves the task.
 */
function stopAsTheTerminalSays(): void {
  const listeners = process.listeners('SIGTSTP');
  process.removeAllListeners('SIGTSTP');
  sendSignal(process.pid, 'SIGTSTP');
  for (const listener of listeners) process.on('SIGTSTP', listener);
}
