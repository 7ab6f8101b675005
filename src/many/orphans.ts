// The processes of a launcher, by its name in their environment: what it leaves if it is killed.
import { setTimeout as sleep } from 'node:timers/promises';
import { processesWithEnvironment, readProc, readStat, sendSignal } from '../native/processes.ts';

/** The kernel does not report the end of processes that are not our children. */
const LOOK_EVERY_MS = 200;

/**
 * If a launcher was killed (usually by the OOM killer), nothing else would end its task. This kills the task, and
 * resolves once the launcher's own sidecar has stored the closed files and ended.
 */
export async function endOrphans(name: string, sidecar: string): Promise<void> {
  for (;;) {
    const left = processesNamed(name);
    if (left.length === 0) return;
    for (const pid of left) if (!runs(pid, sidecar)) sendSignal(pid, 'SIGKILL');
    await sleep(LOOK_EVERY_MS);
  }
}

/**
 * The processes of a launcher. We adopt its orphans, so all are below us. Anybody can put the name into the environment of
 * another process, and root would see it.
 */
export function processesNamed(name: string): readonly number[] {
  return processesWithEnvironment(name).filter(isBelowUs);
}

function isBelowUs(pid: number): boolean {
  let at = pid;
  // 0 is the parent of the first process. One that has ended since, or that is hidden from us, counts as ours.
  while (at !== process.pid && at !== 0) at = readStat(at)?.parent ?? process.pid;
  return at !== 0;
}

/** Compares the whole path: a task may start a program with a similar name. */
function runs(pid: number, entry: string): boolean {
  return (readProc(pid, 'cmdline') ?? '').split('\0').includes(entry);
}
