import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Seats } from '../../src/many/seats.ts';
import { openSlot, type Slot } from '../../src/many/slot.ts';
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

const logFile = (): string => path.join(dir.path, '7.log');

function open(entry: string): { readonly slot: Slot; readonly close: () => void } {
  const lockFd = fs.openSync(path.join(dir.path, 'lock'), 'w');
  const slot = openSlot({
    index: 7,
    options: [],
    argv: ['true'],
    env: process.env,
    cwd: dir.path,
    logFile: logFile(),
    sidecar: undefined,
    lockFd,
    nice: undefined,
    entry,
    preemptedStatus: 75,
    mayAskAgain: false,
    ownChildren: new Set(),
    seats: new Seats(),
  });
  return { slot, close: () => fs.closeSync(lockFd) };
}

it('sends nothing to the pid of a launcher that has ended, and still kills what it has left', async () => {
  const { slot, close } = open(KILLED);
  const pids = (): readonly number[] => fs.readFileSync(logFile(), 'utf8').trim().split(' ').map(Number);
  await until(() => pids().length === 2 && !fs.existsSync(`/proc/${pids()[0]}`), 'the launcher is reaped');
  const [launcher = 0, sidecar = 0] = pids();
  const kill = vi.spyOn(process, 'kill');
  slot.end('again');
  slot.end('faster');
  slot.signal('SIGTSTP');
  expect(slot.usedBytes()).toBe(0);
  slot.end('kill');
  const end = await slot.ended;
  expect(end).toMatchObject({ why: 'its launcher was killed by SIGKILL' });
  const told = kill.mock.calls.map(([pid]) => pid);
  expect(told).not.toContain(launcher);
  expect(told).toContain(sidecar);
  close();
});

it('a task has the lowest number that no other task has that runs', () => {
  const seats = new Seats();
  expect([seats.take(), seats.take(), seats.take()]).toEqual([0, 1, 2]);
  seats.leave(1);
  expect([seats.take(), seats.take()]).toEqual([1, 3]);
});

it('fails at once if an earlier attempt of the task has put a FIFO in the place of its log', async () => {
  execFileSync('mkfifo', [logFile()]);
  const { slot, close } = open(KILLED);
  await expect(slot.ended).resolves.toMatchObject({ kind: 'failed', why: expect.stringContaining('7.log') });
  close();
});
