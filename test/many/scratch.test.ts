import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openScratch, type Scratch } from '../../src/many/scratch.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
let said: string[];
beforeEach(() => {
  dir = testDir();
  said = [];
});
afterEach(() => dir.remove());

const open = (): Promise<Scratch> =>
  openScratch(dir.path, { tasksAtOnce: 1, availableBytes: 0, log: { warn: (text) => said.push(text) } });

it('removes what is done, keeps what failed, and is gone if nothing is kept', async () => {
  const one = await open();
  for (const index of [1, 2]) {
    await one.prepare(index);
    fs.writeFileSync(path.join(one.workdirOf(index), 'file'), 'x');
    fs.writeFileSync(one.logOf(index), 'said');
  }
  await one.remove(1);
  const kept = one.keep(2);
  await one.close();
  expect(kept.map((name) => path.basename(name))).toEqual(['2.failed', '2.failed.log']);
  expect(fs.readdirSync(one.root).toSorted()).toEqual(['2.failed', '2.failed.log']);
  const other = await open();
  await other.prepare(1);
  await other.close();
  expect(fs.existsSync(other.root)).toBe(false);
});

it('gives the next try an empty directory, and moves away what is stored nowhere', async () => {
  const one = await open();
  await one.prepare(1);
  fs.writeFileSync(path.join(one.workdirOf(1), 'file'), 'x');
  const aside = one.setAside(1);
  await one.prepare(1);
  fs.writeFileSync(path.join(one.workdirOf(1), 'file'), 'y');
  await one.prepare(1);
  expect(fs.readdirSync(one.workdirOf(1))).toEqual([]);
  await one.close();
  expect(fs.readFileSync(path.join(aside ?? '', 'file'), 'utf8')).toBe('x');
});

it('keeps what is there of a task that has removed its own work directory', async () => {
  const one = await open();
  fs.writeFileSync(one.logOf(1), 'said');
  expect(one.setAside(1)).toBeUndefined();
  expect(one.keep(1)).toEqual([path.join(one.root, '1.failed.log')]);
  await one.close();
});

it('removes what a killed runner has left, but for failed tasks and unsaved files, and nothing of one that lives', async () => {
  // The kernel frees the lock of a process that dies: closing the file does the same.
  const [killed, alive, unsaved, failed] = [await open(), await open(), await open(), await open()];
  for (const one of [killed, alive, unsaved, failed]) {
    await one.prepare(1);
    await one.prepare(2);
  }
  unsaved.setAside(1);
  failed.keep(1);
  for (const { lockFd } of [killed, unsaved, failed]) fs.closeSync(lockFd);
  const next = await open();
  expect(fs.existsSync(killed.root)).toBe(false);
  expect(fs.readdirSync(alive.root).toSorted()).toEqual(['1', '2', 'lock']);
  expect(fs.readdirSync(unsaved.root)).toEqual(['1.unsaved-1']);
  expect(fs.readdirSync(failed.root)).toEqual(['1.failed']);
  await alive.close();
  await next.close();
});

it('leaves what a task had in its work directory when all was killed, unless it was saved by then', async () => {
  const killed = await open();
  for (const index of [1, 2]) {
    await killed.prepare(index);
    fs.mkdirSync(path.join(killed.workdirOf(index), '.capture'));
    fs.writeFileSync(path.join(killed.workdirOf(index), '.capture/attempt.json'), '{}');
    fs.writeFileSync(path.join(killed.workdirOf(index), 'closed'), 'x');
  }
  fs.writeFileSync(path.join(killed.workdirOf(1), '.capture/saved'), '');
  expect([1, 2].map((index) => killed.isUnsaved(index))).toEqual([false, true]);
  fs.closeSync(killed.lockFd);
  const next = await open();
  expect(fs.readdirSync(killed.root)).toEqual(['2.unsaved-1']);
  expect(fs.readFileSync(path.join(killed.root, '2.unsaved-1/closed'), 'utf8')).toBe('x');
  expect(said).toEqual([expect.stringContaining(`${killed.root}/2.unsaved-1`)]);
  await next.close();
});

it('removes and renames nothing of a directory that another user has put in its place', async () => {
  const victim = path.join(dir.path, 'home');
  fs.mkdirSync(victim);
  for (const name of ['1', '2', '1.log', '2.log', 'lock', 'thesis.tex'])
    fs.writeFileSync(path.join(victim, name), 'mine');
  const mine = fs.readdirSync(victim);
  const one = await open();
  for (const index of [1, 2, 3]) {
    await one.prepare(index);
    fs.writeFileSync(path.join(one.workdirOf(index), 'file'), 'x');
    fs.writeFileSync(one.logOf(index), 'said');
  }
  const moved = path.join(dir.path, 'moved');
  fs.renameSync(one.root, moved);
  fs.symlinkSync(victim, one.root);
  await expect(one.prepare(1)).rejects.toThrow('is not the directory any more that was made there');
  await one.remove(1);
  one.keep(2);
  one.setAside(1);
  await one.close();
  expect(fs.readdirSync(victim)).toEqual(mine);
  expect(fs.readdirSync(moved).toSorted()).toEqual(['2.failed', '2.failed.log']);
});

it('is not made in a directory that another user has put in its place, and nothing of that is removed', async () => {
  const victim = path.join(dir.path, 'capture-array.home');
  fs.mkdirSync(victim, { mode: 0o700 });
  fs.writeFileSync(path.join(victim, 'thesis.tex'), 'mine');
  fs.symlinkSync(victim, path.join(dir.path, 'capture-array.link'));
  const one = await open();
  await one.close();
  expect(fs.readdirSync(victim)).toEqual(['thesis.tex']);
});
