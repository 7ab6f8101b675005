// Workers that several tasks share: each reads its own files, and what one gives up is nothing to the others.
import fs from 'node:fs';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { Body } from '../../src/read/reading.ts';
import { openPool, type Pool, type Workers } from '../../src/read/workers.ts';
import { bundleEntry } from '../support/bundle-entry.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { bodyOf, incompressible, MiB, RAW, readAll } from './read-all.ts';

let entry: string;
let pool: Pool;
let dirs: readonly TestDir[];
let tasks: readonly Workers[];

beforeAll(async () => {
  entry = await bundleEntry('src/read/worker.ts');
});
beforeEach(() => {
  pool = openPool({ count: 'auto', isShared: true, idleCores: () => 0, entry, spoolLimitBytes: 0 });
  dirs = [testDir(), testDir()];
  tasks = dirs.map((dir) => pool.open(dir, 0));
});
afterEach(async () => {
  await Promise.all(tasks.map((task) => task.close()));
  await pool.close();
  for (const dir of dirs) dir.remove();
});

const job = (path: string, urgent = false) => ({ path, compression: RAW, spoolFirst: false, urgent });
const large = (name: string, at: number): void => void dirs[at]?.write(name, incompressible(36 * MiB));

it('the same name means each task’s own file', async () => {
  dirs.forEach((dir, at) => dir.write('r.dat', `of ${at}`));
  const read = await Promise.all(
    tasks.map(async (task) => (await readAll(bodyOf(await task.read(job('r.dat'))))).plain.toString()),
  );
  expect(read).toEqual(['of 0', 'of 1']);
});

it('a checkpoint of one task is read at once, however many large results of another task are being read', async () => {
  const [a, b] = tasks;
  for (const name of ['r.1', 'r.2', 'r.3', 'r.4']) large(name, 0);
  large('k.chk', 1);
  const expected = (name: string) => ({ ...job(name), expected: dirs[0]?.facts(name) });
  const results = ['r.1', 'r.2', 'r.3', 'r.4'].map((name) => a?.read(expected(name)));
  // Nobody takes their parts.
  const first = bodyOf((await results[0]) ?? { kind: 'gone' });
  const checkpoint = { ...job('k.chk', true), expected: dirs[1]?.facts('k.chk') };
  const body = bodyOf((await b?.read(checkpoint)) ?? { kind: 'gone' });
  expect((await readAll(body)).plain.length).toBe(36 * MiB);
  await first.parts.return?.();
  for (const result of results.slice(1)) await bodyOf((await result) ?? { kind: 'gone' }).parts.return?.();
});

it('a large result of one task is read at once, however long those of one other task take', async () => {
  for (const name of ['r.1', 'r.2']) large(name, 0);
  large('r.9', 1);
  const reading = async (name: string, at: number): Promise<Body> =>
    bodyOf((await tasks[at]?.read({ ...job(name), expected: dirs[at]?.facts(name) })) ?? { kind: 'gone' });
  // Nobody takes its parts.
  const first = await reading('r.1', 0);
  const second = reading('r.2', 0);
  const other = await reading('r.9', 1);
  expect((await readAll(other)).plain.length).toBe(36 * MiB);
  let isRead = false;
  void second.then(() => (isRead = true));
  await (await reading('r.9', 1)).parts.return?.();
  expect(isRead).toBe(false);
  await first.parts.return?.();
  await (await second).parts.return?.();
});

it('the readings of a task that leaves fail, and it keeps no file open and disturbs no other task', async () => {
  const [a, b] = tasks;
  large('r.1', 0);
  large('r.2', 0);
  large('r.1', 1);
  const under = bodyOf(
    (await a?.read({ ...job('r.1'), expected: dirs[0]?.facts('r.1') })) ?? { kind: 'gone' },
  );
  under.done.catch(() => undefined);
  const other = bodyOf(
    (await b?.read({ ...job('r.1', true), expected: dirs[1]?.facts('r.1') })) ?? { kind: 'gone' },
  );
  const waiting = a?.read({ ...job('r.2'), expected: dirs[0]?.facts('r.2') });
  waiting?.catch(() => undefined);
  await a?.close();
  await expect(readAll(under)).rejects.toThrow('the workers are closed');
  const inside = fs.readdirSync('/proc/self/fd').filter((fd) => linkOf(fd).startsWith(`${dirs[0]?.path}/`));
  expect(inside).toEqual([]);
  expect((await readAll(other)).plain.length).toBe(36 * MiB);
  await expect(a?.read(job('r.1'))).rejects.toThrow('the workers are closed');
});

function linkOf(fd: string): string {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}
