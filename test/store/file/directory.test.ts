// The directory of a file store, held from the moment that it is there.
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

it('may be missing until it is made, and is never made a second time', async () => {
  await root.check();
  await root.make();
  fs.rmdirSync(path);
  await expect(root.check()).rejects.toMatchObject({ kind: 'lost' });
  await expect(root.make()).rejects.toMatchObject({ kind: 'lost' });
  expect(fs.existsSync(path)).toBe(false);
});

it('is held once, however many make it at once, and let go at the end', async () => {
  await Promise.all([root.make(), root.make(), root.make()]);
  expect(held()).toHaveLength(1);
  await root.close();
  expect(held()).toEqual([]);
});
