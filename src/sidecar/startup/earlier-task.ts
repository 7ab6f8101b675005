// Ends a task of an earlier attempt that still runs in this directory, although its launcher and its sidecar were
// killed. Otherwise two tasks would write the same files, and nobody would see what the earlier one leaves half-written
// when it dies.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../log/log.ts';
import type { Settings } from '../../model/format/settings.ts';
import { plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { processesWithEnvironment, readStat, sendSignal } from '../../native/processes.ts';
import { readLastAttemptFile } from '../run/attempt-file.ts';

/** As for a task whose attempt another one takes over. */
const KILL_AFTER_MS = 5000;
/** A process that hangs in the kernel delays no start for longer than this. */
const GIVE_UP_AFTER_MS = 7000;
const LOOK_EVERY_MS = 50;

/** Call it while holding the lock of the work directory: a supervisor of such a task would hold it. */
export async function endEarlierTask(
  settings: Settings,
  launcher: number | undefined,
  log: Log,
): Promise<void> {
  const earlier = readLastAttemptFile(settings);
  if (earlier === undefined) return;
  const ours = new Set([process.pid, launcher ?? 0].flatMap(withAncestors));
  const living = (): readonly number[] =>
    processesWithEnvironment(`CAPTURED_RUN=${earlier.runToken}`).filter((pid) => !ours.has(pid));
  const found = living();
  if (found.length === 0) return;
  const which = `${plural(found.length, 'process')} (${found.join(' ')})`;
  log.warn(
    `the task of attempt ${earlier.attempt} is still at work here, and nobody watches it: ${which} ended`,
  );
  const beganMs = clockMs();
  for (const pid of found) sendSignal(pid, 'SIGTERM');
  for (let left = living(); left.length > 0; left = living()) {
    const tookMs = clockMs() - beganMs;
    if (tookMs > GIVE_UP_AFTER_MS) return;
    if (tookMs > KILL_AFTER_MS) for (const pid of left) sendSignal(pid, 'SIGKILL');
    await sleep(LOOK_EVERY_MS);
  }
}

function withAncestors(pid: number): readonly number[] {
  const stat = pid > 0 ? readStat(pid) : undefined;
  return stat === undefined ? [] : [pid, ...withAncestors(stat.parent)];
}
