// How the run ended, in words for the beginning of the last line. Pure; nothing stands there when all is well.
import type { TaskEnd } from '../format/messages.ts';
import type { Verdict } from './verdict.ts';

/**
 * `failed: the task ended with 3`, `failed: SIGSEGV ended the task, exit 139`, `to be run again, exit 75: SIGTERM`;
 * undefined when the run has not failed. `end` is undefined when nobody knows how the task ended; `because`: why it
 * did so, where somebody knows.
 */
export function verdictLine(
  { kind, status, reason }: Verdict,
  end: Pick<TaskEnd, 'code' | 'signal'> | undefined,
  because: string | undefined,
): string | undefined {
  if (kind === 'preempted')
    return `to be run again, exit ${status}: ${reason ?? because ?? 'it was stopped'}`;
  if (kind !== 'failed') return undefined;
  if (reason !== undefined) return `failed, exit ${status}, not to be run again: ${reason}`;
  const why = because ?? howItEnded(end);
  if (why === undefined) return `failed, exit ${status}`;
  return end?.code === status ? `failed: ${why}` : `failed: ${why}, exit ${status}`;
}

/** Undefined when the task itself did not fail. */
function howItEnded(end: Pick<TaskEnd, 'code' | 'signal'> | undefined): string | undefined {
  if (end?.signal !== undefined) return `${end.signal} ended the task`;
  return end === undefined || end.code === 0 ? undefined : `the task ended with ${end.code}`;
}
