// Waits until no process of a task is left, for a sidecar whose launcher is gone: it was the launcher's to know.
import fs from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BackOff, pauseAfter } from '../model/waiting.ts';

/** Nobody tells us of the end of processes that are not our children: we look again after a growing pause. */
const BACK_OFF: BackOff = { firstMs: 250, mostMs: 5000, factor: 1.5 };

/** Resolves once no process of the task's group and none that carries its CAPTURED_RUN is left. */
export async function taskIsGone(runToken: string, taskPid: number | undefined): Promise<void> {
  for (let looks = 0; await isAlive(runToken, taskPid); looks += 1) await sleep(pauseAfter(BACK_OFF, looks));
}

async function isAlive(runToken: string, taskPid: number | undefined): Promise<boolean> {
  const pids = (await fs.readdir('/proc')).filter(
    (name) => /^\d+$/.test(name) && name !== String(process.pid),
  );
  const found = await Promise.all(pids.map((pid) => belongs(pid, runToken, taskPid)));
  return found.includes(true);
}

async function belongs(pid: string, runToken: string, taskPid: number | undefined): Promise<boolean> {
  try {
    const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8');
    // After the name, which may hold any character: state, parent, group (proc(5)).
    const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return false;
    if (taskPid !== undefined && Number(pid) === taskPid) return true;
    if (taskPid !== undefined && Number(group) === taskPid) return true;
    const environ = await fs.readFile(`/proc/${pid}/environ`, 'latin1');
    return environ.split('\0').includes(`CAPTURED_RUN=${runToken}`);
  } catch {
    return false; // gone meanwhile, or another user's: not the task's
  }
}
