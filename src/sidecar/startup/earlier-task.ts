// Ends a task of an earlier attempt that still runs in this directory, although its launcher and its sidecar were
// killed. Otherwise two tasks would write the same files, and nobody would see what the earlier one leaves half-written
// when it dies.
import type { Log } from '../../log/log.ts';
import type { Settings } from '../../model/format/settings.ts';
import { plural } from '../../model/units.ts';
import { processesWithEnvironment, readStat } from '../../native/processes.ts';
import { isMarkedEnded, readLastAttemptFile } from '../run/attempt-file.ts';
import { endProcesses } from '../run/orphaned-task.ts';

/** Call it while holding the lock of the work directory: a supervisor of such a task would hold it. */
export async function endEarlierTask(
  settings: Settings,
  launcher: number | undefined,
  log: Log,
): Promise<void> {
  const earlier = readLastAttemptFile(settings);
  if (earlier === undefined || isMarkedEnded(settings, earlier.runToken)) return;
  const ours = new Set([process.pid, launcher ?? 0].flatMap(withAncestors));
  const living = (): readonly number[] =>
    processesWithEnvironment(`CAPTURED_RUN=${earlier.runToken}`).filter((pid) => !ours.has(pid));
  const found = living();
  if (found.length === 0) return;
  const which = `${plural(found.length, 'process')} (${found.join(' ')})`;
  log.warn(
    `the task of attempt ${earlier.attempt} is still at work here, and nobody watches it: ${which} ended`,
  );
  await endProcesses(living, log);
}

function withAncestors(pid: number): readonly number[] {
  const stat = pid > 0 ? readStat(pid) : undefined;
  return stat === undefined ? [] : [pid, ...withAncestors(stat.parent)];
}
