import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { JobSlots, type Launcher, startLauncher } from '../../src/many/launcher.ts';
import { becomeSubreaper } from '../../src/native/processes.ts';
import { until } from '../e2e/support.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const KILLED = fileURLToPath(new URL('fixtures/killed-launcher.mjs', import.meta.url));

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => {
  vi.restoreAllMocks();
  dir.remove();
});

const CAUSE = { why: 'a test', reason: 'a test stops it' };
const logFile = (): string => path.join(dir.path, '7.log');

function open(entry: string): { readonly launcher: Launcher; readonly close: () => void } {
  const lockFd = fs.openSync(path.join(dir.path, 'lock'), 'w');
  const sidecar = { enter: () => undefined, lifeOver: () => Promise.resolve() };
  const launcher = startLauncher(
    {
      options: [],
      argv: ['true'],
      env: process.env,
      cwd: dir.path,
      logFile: logFile(),
      mayShareSidecar: false,
      lockFd,
      nice: undefined,
      entry,
      preemptedStatus: 75,
      mayAskAgain: false,
    },
    { sidecar, ownChildren: new Set(), jobSlots: new JobSlots() },
  );
  return { launcher, close: () => fs.closeSync(lockFd) };
}

/** Nobody may reap it: it is not our child. */
function hasEnded(pid: number): boolean {
  return (
    !fs.existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))
  );
}

/** A process with the launcher's name, that looks like its sidecar, and that is not below us. */
function strangerNamed(name: string): number {
  const run = ['-c', '"$@" </dev/null >/dev/null 2>&1 & echo $!', 'sh', process.execPath];
  const wait = ['-e', 'setInterval(() => 0, 1000)', path.join(path.dirname(KILLED), 'sidecar.cjs')];
  const env = { ...process.env, CAPTURED_TASK_LOG: name };
  return Number(execFileSync('sh', [...run, ...wait], { encoding: 'utf8', env }));
}

it('sends nothing to the pid of a launcher that has ended, and still kills what it has left', async () => {
  // Its parent has ended before we adopt orphans.
  const stranger = strangerNamed(logFile());
  onTestFinished(() => void process.kill(stranger, 'SIGKILL'));
  becomeSubreaper();
  const { launcher, close } = open(KILLED);
  const pids = (): readonly number[] => fs.readFileSync(logFile(), 'utf8').trim().split(' ').map(Number);
  await until(() => pids().length === 3 && !fs.existsSync(`/proc/${pids()[0]}`), 'the launcher is reaped');
  const [pid = 0, sidecar = 0, looksLikeIt = 0] = pids();
  await until(() => hasEnded(looksLikeIt), 'what only looks like a sidecar is killed');
  const kill = vi.spyOn(process, 'kill');
  launcher.end('checkpoint', CAUSE);
  launcher.end('faster', CAUSE);
  launcher.signal('SIGTSTP');
  expect(launcher.usedBytes()).toBe(0);
  launcher.end('kill', CAUSE);
  const end = await launcher.ended;
  expect(end).toMatchObject({ why: 'its launcher was killed by SIGKILL' });
  const told = kill.mock.calls.map(([one]) => one);
  expect(told).not.toContain(pid);
  expect(told).toContain(sidecar);
  expect(told).not.toContain(stranger);
  expect(hasEnded(stranger)).toBe(false);
  close();
});

it('a task has the lowest number that no other task has that runs', () => {
  const slots = new JobSlots();
  expect([slots.take(), slots.take(), slots.take()]).toEqual([0, 1, 2]);
  slots.leave(1);
  expect([slots.take(), slots.take()]).toEqual([1, 3]);
});

it('fails at once if an earlier attempt of the task has put a FIFO in the place of its log', async () => {
  execFileSync('mkfifo', [logFile()]);
  const { launcher, close } = open(KILLED);
  await expect(launcher.ended).resolves.toMatchObject({
    kind: 'failed',
    why: expect.stringContaining('7.log'),
  });
  close();
});
