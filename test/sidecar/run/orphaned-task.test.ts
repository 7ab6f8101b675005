// The processes of a task whose launcher is gone, and others that get their numbers later.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { readStat } from '../../../src/native/processes.ts';
import { OrphanedTask } from '../../../src/sidecar/run/orphaned-task.ts';

/** The kernel's next process gets the number after it (pid_namespaces(7)); only root may write it. */
const LAST_PID = '/proc/sys/kernel/ns_last_pid';
const mayChoosePid = process.geteuid?.() === 0 && fs.existsSync(LAST_PID);
const TOKEN = 'token-of-no-process';
const WITHIN_MS = 10_000;

const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
});

/** A group of its own. */
function startGroup(): number {
  const child = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
  started.push(child);
  return child.pid ?? 0;
}

async function exitOf(pid: number): Promise<void> {
  const child = started.findLast((one) => one.pid === pid);
  if (child !== undefined) await once(child, 'exit');
}

async function endGroup(pid: number): Promise<void> {
  const gone = exitOf(pid);
  process.kill(-pid, 'SIGKILL');
  await gone;
}

/**
 * Others start processes, too: so not each try gets it. `notAt`: the tick in which the one before it started; what starts in
 * the same tick looks the same.
 */
async function startGroupWithNumber(pid: number, notAt: number | undefined): Promise<void> {
  for (;;) {
    fs.writeFileSync(LAST_PID, String(pid - 1));
    const got = startGroup();
    if (got === pid && readStat(got)?.startTicks !== notAt) return;
    await endGroup(got);
  }
}

const silent = { warn: () => undefined } as unknown as Log;

describe('the group of a task', () => {
  it('is ended', async () => {
    const pid = startGroup();
    const gone = exitOf(pid);
    const task = new OrphanedTask(TOKEN, pid);
    await task.end(silent);
    await gone;
    await task.ended(AbortSignal.timeout(WITHIN_MS));
    expect(readStat(pid)).toBe(undefined);
  });

  it.runIf(mayChoosePid)('is not another one that got its number since', async () => {
    const pid = startGroup();
    const task = new OrphanedTask(TOKEN, pid);
    const startTicks = readStat(pid)?.startTicks;
    await endGroup(pid);
    await startGroupWithNumber(pid, startTicks);
    const signal = AbortSignal.timeout(WITHIN_MS);
    await task.ended(signal);
    expect(signal.aborted).toBe(false);
    await task.end(silent);
    expect(readStat(pid)?.state).toBe('S');
  });
});
