import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openScratch, type Scratch } from '../../src/many/scratch.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

const open = (): Promise<Scratch> => openScratch(dir.path, { tasksAtOnce: 1, availableBytes: 0 });

it('removes what is done, keeps what failed, and is gone if nothing is kept', async () => {
  const one = await open();
  for (const index of [1, 2]) {
    await one.prepare(index);
    fs.writeFileSync(path.join(one.workdirOf(index), 'file'), 'x');
    fs.writeFileSync(one.logOf(index), 'said');
  }
  await one.remove(1);
  one.keep(2);
  await one.close();
  expect(fs.readdirSync(one.root).toSorted()).toEqual(['2', '2.log']);
  const other = await open();
  await other.prepare(1);
  await other.close();
  expect(fs.existsSync(other.root)).toBe(false);
});

it('gives the next try an empty directory, and moves away what is stored nowhere', async () => {
  const one = await open();
  await one.prepare(1);
  fs.writeFileSync(path.join(one.workdirOf(1), 'file'), 'x');
  const aside = await one.setAside(1);
  await one.prepare(1);
  fs.writeFileSync(path.join(one.workdirOf(1), 'file'), 'y');
  await one.prepare(1);
  expect(fs.readdirSync(one.workdirOf(1))).toEqual([]);
  await one.close();
  expect(fs.readFileSync(path.join(aside, 'file'), 'utf8')).toBe('x');
});

it('removes what a killed runner has left, and nothing of one that lives, failed tasks or unsaved files', async () => {
  // The kernel frees the lock of a process that dies: closing the file does the same.
  const [killed, alive, unsaved, failed] = [await open(), await open(), await open(), await open()];
  await unsaved.prepare(1);
  await unsaved.setAside(1);
  await failed.prepare(1);
  failed.keep(1);
  await failed.close();
  fs.closeSync(killed.lockFd);
  fs.closeSync(unsaved.lockFd);
  const next = await open();
  expect(fs.readdirSync(dir.path).toSorted()).toEqual(
    [alive, unsaved, failed, next].map(({ root }) => path.basename(root)).toSorted(),
  );
  await alive.close();
  await next.close();
});
