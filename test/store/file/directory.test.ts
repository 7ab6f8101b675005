// The directory of a file store, held from the moment that it is there.
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { StoreRoot } from '../../../src/store/file/directory.ts';

let parent: string;
let path: string;
let root: StoreRoot;
beforeEach(() => {
  parent = fs.mkdtempSync(join(os.tmpdir(), 'file-root-'));
  path = join(parent, 'made/by/us');
  root = new StoreRoot(path);
});
afterEach(async () => {
  await root.close();
  fs.rmSync(parent, { recursive: true });
});

const held = (): readonly string[] =>
  fs.readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return fs.readlinkSync(`/proc/self/fd/${fd}`) === fs.realpathSync(path);
    } catch {
      return false; // closed since
    }
  });

it('may be missing until it is created, and is never created a second time', async () => {
  await root.check();
  await root.make();
  fs.rmdirSync(path);
  await expect(root.check()).rejects.toMatchObject({ kind: 'lost' });
  await expect(root.make()).rejects.toMatchObject({ kind: 'lost' });
  expect(fs.existsSync(path)).toBe(false);
});

it('is opened once, however many create it at once, and closed at the end', async () => {
  await Promise.all([root.make(), root.make(), root.make()]);
  expect(held()).toHaveLength(1);
  await root.close();
  expect(held()).toEqual([]);
});

it('closed while a folder is being opened, leads to no other directory, and is released afterwards', async () => {
  await root.make();
  fs.mkdirSync(join(path, 'folder'));
  const other = join(parent, 'other');
  fs.mkdirSync(join(other, 'folder'), { recursive: true });
  const { ino } = fs.statSync(join(path, 'folder'));
  // All threads of Node are busy (Node, UV_THREADPOOL_SIZE): the kernel is asked when they are free.
  const busy = Array.from(
    { length: 4 },
    () => new Promise((resolve) => crypto.pbkdf2('a', 'b', 200_000, 64, 'sha512', resolve)),
  );
  const opening = root.hold('folder');
  const closing = root.close();
  // Each gets the lowest number that is free (open(2)).
  const others = Array.from({ length: 8 }, () => fs.openSync(other, fs.constants.O_RDONLY));
  try {
    await Promise.all(busy);
    const folder = await opening;
    expect(fs.statSync(`${folder.at}/.`).ino).toBe(ino);
    expect(held()).toHaveLength(1);
    folder.close();
    await closing;
    expect(held()).toEqual([]);
    await expect(root.hold('folder')).rejects.toThrow('is closed');
    await expect(root.check()).rejects.toThrow('is closed');
    expect(held()).toEqual([]);
  } finally {
    for (const fd of others) fs.closeSync(fd);
  }
});
