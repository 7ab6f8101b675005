// Which tasks may share a sidecar, and what its runner says if there can be none.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startSharedSidecar } from '../../src/launch/sidecar-start.ts';
import type { Log } from '../../src/log/log.ts';
import {
  mayShareSidecar,
  mostSharing,
  openSharedSidecar,
  type SharedSidecar,
} from '../../src/many/shared-sidecar.ts';
import { NO_NUMBERS, SIDECAR_VARIABLE } from '../../src/model/format/shared-sidecar.ts';
import { openFilesLimit, sendSignal } from '../../src/native/processes.ts';
import { isAlive, until } from '../e2e/support.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const ENTRY = fileURLToPath(new URL('../../dist/sidecar.cjs', import.meta.url));

let dir: TestDir;
let said: string[];
let sidecar: SharedSidecar | undefined;
const ownChildren = new Set<number>();
beforeEach(() => {
  dir = testDir();
  said = [];
});
afterEach(async () => {
  await sidecar?.close();
  sidecar = undefined;
  dir.remove();
});

const ignore = (): undefined => undefined;
const log: Log = {
  debug: ignore,
  info: ignore,
  warn: (message) => said.push(message),
  error: ignore,
  ofAttempt: ignore,
  draw: undefined,
  close: async () => undefined,
};

/** Of a task that shares it. */
const envOf = (one: SharedSidecar): NodeJS.ProcessEnv => one.enter()?.env() ?? {};

async function open(below = dir.path, askEveryMs?: number): Promise<SharedSidecar> {
  const options = {
    askEveryMs,
    entry: ENTRY,
    env: process.env,
    lockFd: dir.fd,
    tasksAtOnce: 2,
    nice: undefined,
  };
  sidecar = await openSharedSidecar({ ...options, dir: below, log, ownChildren });
  return sidecar;
}

it('tasks share one unless their columns say where the store or its secrets are', () => {
  expect(mayShareSidecar({})).toBe(true);
  expect(mayShareSidecar({ size: '3', colour: 'red' })).toBe(true);
  for (const name of [
    'AWS_PROFILE',
    'GOOGLE_APPLICATION_CREDENTIALS',
    'STORAGE_EMULATOR_HOST',
    'HTTPS_PROXY',
    'no_proxy',
    'TMPDIR',
    'HOME',
    'CAPTURE_LANES',
  ])
    expect(mayShareSidecar({ size: '3', [name]: 'x' }), name).toBe(false);
});

it('listens where launchers are told, for our user alone, and leaves nothing', async () => {
  const one = await open();
  const socket = envOf(one)[SIDECAR_VARIABLE] ?? '';
  expect(socket).toBe(path.join(dir.path, 'sidecar'));
  expect(fs.statSync(socket).mode & 0o777).toBe(0o600);
  expect(one.numbers()).toEqual(NO_NUMBERS);
  expect(ownChildren.size).toBe(1);
  await one.close();
  expect(dir.names('')).toEqual([]);
  await until(() => ownChildren.size === 0, 'it is no child any more');
});

it('its socket has a short path, however long the scratch directory is', async () => {
  const long = path.join(dir.path, 'x'.repeat(100));
  fs.mkdirSync(long);
  const socket = envOf(await open(long))[SIDECAR_VARIABLE] ?? '';
  expect(Buffer.byteLength(socket)).toBeLessThan(100);
  expect(fs.statSync(path.dirname(socket)).mode & 0o777).toBe(0o700);
  await sidecar?.close();
  expect(fs.existsSync(path.dirname(socket))).toBe(false);
});

it('another one listens there when it was killed', async () => {
  const one = await open();
  const [first = 0] = ownChildren;
  sendSignal(first, 'SIGKILL');
  await until(() => ownChildren.size === 1 && !ownChildren.has(first), 'another one');
  await until(() => fs.existsSync(envOf(one)[SIDECAR_VARIABLE] ?? ''), 'its socket');
  expect(said).toEqual(['the sidecar of all tasks died (SIGKILL); they go on, a new one starts in 50 ms']);
});

it('tasks are not told of one that cannot listen', async () => {
  fs.mkdirSync(path.join(dir.path, 'sidecar.new'));
  expect(envOf(await open())).toEqual({});
  expect(said[0]).toMatch(/^tasks cannot share a sidecar, each has its own: /);
  fs.rmdirSync(path.join(dir.path, 'sidecar.new'));
});

it('is shared by no more tasks at once than it has open files for', async () => {
  expect([64, 256, 1024].map(mostSharing)).toEqual([0, 6, 30]);
  const one = await open();
  const most = mostSharing(openFilesLimit());
  const places = Array.from({ length: most }, () => one.enter());
  expect(places).not.toContain(undefined);
  expect(one.enter()).toBeUndefined();
  places[0]?.leave();
  expect(one.enter()).toBeDefined();
});

it('one that does not answer any more is replaced', async () => {
  await open(dir.path, 200);
  const [first = 0] = [...ownChildren];
  process.kill(first, 'SIGSTOP');
  await until(() => [...ownChildren].some((pid) => pid !== first), 'another one');
  expect(said).toContain('the sidecar of all tasks has not answered for 400 ms');
  expect(isAlive(first)).toBe(false);
});

it('one that is asked answers', async () => {
  const socket = path.join(dir.path, 'sidecar');
  const { child, gone } = startSharedSidecar(ENTRY, {
    socket,
    lockFd: dir.fd,
    env: process.env,
    tasksAtOnce: 1,
  });
  const heard: unknown[] = [];
  child.on('message', (message) => heard.push(message));
  child.send({ kind: 'ask' });
  await expect.poll(() => heard, { timeout: 60_000 }).toContainEqual({ kind: 'alive' });
  child.disconnect();
  await gone;
});
