// What is left of a slot whose launcher was killed (by the kernel for want of memory, most often): nobody would end its
// task. The sidecar stores what is closed; one of its own then ends by itself.
import { setTimeout as sleep } from 'node:timers/promises';
import { processesWithEnvironment, readProc, sendSignal } from '../native/processes.ts';

/** Nobody tells us of the end of processes that are not our children. */
const LOOK_EVERY_MS = 200;

/** Kills the task, and resolves once the sidecar has stored what was closed. `assignment`: what all of them carry. */
export async function endOrphans(assignment: string): Promise<void> {
  for (;;) {
    const left = processesWithEnvironment(assignment);
    if (left.length === 0) return;
    for (const pid of left) if (!isSidecar(pid)) sendSignal(pid, 'SIGKILL');
    await sleep(LOOK_EVERY_MS);
  }
}

function isSidecar(pid: number): boolean {
  return (readProc(pid, 'cmdline') ?? '').split('\0').some((word) => word.endsWith('/sidecar.cjs'));
}
