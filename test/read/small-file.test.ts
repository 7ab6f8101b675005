import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SmallFiles } from '../../src/read/small-file.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { compressible, RAW, ZSTD } from './read-all.ts';

const MOST_BYTES = 1000;
const job = { path: 'r.dat', compression: RAW, spoolFirst: false };

let dir: TestDir;
let small: SmallFiles;
beforeEach(() => {
  dir = testDir();
  small = new SmallFiles(dir, MOST_BYTES);
});
afterEach(() => {
  vi.restoreAllMocks();
  dir.remove();
});

it('leaves a larger file to the workers', async () => {
  dir.write('r.dat', Buffer.alloc(MOST_BYTES + 1));
  const before = openFiles();
  expect(await small.read(job)).toBeUndefined();
  expect(await small.read({ ...job, expected: dir.facts('r.dat') })).toBeUndefined();
  expect(openFiles()).toBe(before);
});

it('has all bytes, and their proof, at once', async () => {
  dir.write('r.dat', 'content');
  const facts = dir.facts('r.dat');
  const md5 = '9a0364b9e99bb480dd25e1f0284c8555';
  const body = await small.read(job);
  expect(body).toMatchObject({
    kind: 'body',
    whole: Uint8Array.from(Buffer.from('content')),
    facts,
    md5,
    compressed: false,
  });
  expect(await (body as { done: unknown }).done).toEqual({ md5, facts, storedBytes: 7 });
});

it.each([
  ['written by somebody who still has it open', () => openAndWrite(), 'writer'],
  ['written and closed', () => fs.closeSync(openAndWrite()), 'moved'],
  ['cut', () => fs.truncateSync(file(), 0), 'moved'],
])('is of no moment when it is %s while it is read', async (_, change, kind) => {
  dir.write('r.dat', compressible(MOST_BYTES));
  const before = openFiles();
  const read = fs.readSync;
  let held: unknown;
  vi.spyOn(fs, 'readSync').mockImplementation((...args: Parameters<typeof read>) => {
    held ??= change() ?? 'done';
    return read(...args);
  });
  expect(await small.read({ ...job, compression: ZSTD })).toEqual({ kind });
  if (typeof held === 'number') fs.closeSync(held);
  expect(openFiles()).toBe(before);
});

it('looks at nothing once the workers are closed', async () => {
  dir.write('r.dat', 'content');
  small.close();
  await expect(small.read(job)).rejects.toThrow('cannot read r.dat: the workers are closed');
});

function file(): string {
  return path.join(dir.path, 'r.dat');
}

function openAndWrite(): number {
  const fd = fs.openSync(file(), 'r+');
  fs.writeSync(fd, 'other', 0);
  return fd;
}

function openFiles(): number {
  return fs.readdirSync('/proc/self/fd').length;
}
