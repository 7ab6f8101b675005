import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
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
  expect(await small.read(job)).toEqual({ kind: 'elsewhere', sizeBytes: MOST_BYTES + 1 });
  const expected = dir.facts('r.dat');
  expect(await small.read({ ...job, expected })).toEqual({ kind: 'elsewhere', sizeBytes: MOST_BYTES + 1 });
  expect(openFiles()).toBe(before);
});

it('gives all bytes, and their proof, at once', async () => {
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
])('is given up when it is %s while it is read', async (_, change, kind) => {
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

it('reads nothing after the workers are closed', async () => {
  dir.write('r.dat', 'content');
  small.close();
  await expect(small.read(job)).rejects.toThrow('cannot read r.dat: the workers are closed');
});

describe('a file on a network file system', () => {
  const NFS = 0x6969;

  it('is left to the workers, unopened, and each device is checked once', async () => {
    const asked = vi.spyOn(fs, 'statfsSync').mockReturnValue({ type: NFS } as unknown as fs.StatsFs);
    dir.write('a/r.dat', 'content');
    dir.write('r.dat', 'content');
    expect(await small.read({ ...job, path: 'a/r.dat' })).toEqual({ kind: 'elsewhere', sizeBytes: 0 });
    expect(await small.read(job)).toEqual({ kind: 'elsewhere', sizeBytes: 0 });
    expect(asked).toHaveBeenCalledOnce();
  });

  it('is recognised by its mount, below a local work directory', async ({ skip }) => {
    const mount = mountFuse(dir, 'far');
    if (mount === undefined) return skip('no FUSE mount can be made here (rclone, fusermount3)');
    try {
      dir.write('near/r.dat', 'content');
      fs.writeFileSync(path.join(mount.source, 'r.dat'), 'content');
      expect(await small.read({ ...job, path: 'far/r.dat' })).toEqual({ kind: 'elsewhere', sizeBytes: 0 });
      expect(await small.read({ ...job, path: 'near/r.dat' })).toMatchObject({ kind: 'body' });
    } finally {
      mount.remove();
    }
  });

  it('is not given to a worker if it is gone', async () => {
    expect(await small.read({ ...job, path: 'far/r.dat' })).toEqual({ kind: 'gone' });
  });
});

/** A FUSE file system at `name`, which shows the files of `source`; undefined where none can be mounted. */
function mountFuse(
  at: TestDir,
  name: string,
): { readonly source: string; readonly remove: () => void } | undefined {
  const target = path.join(at.path, name);
  const source = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-fuse-'));
  fs.mkdirSync(target);
  // --daemon: comes back once the mount stands.
  const mounted = spawnSync('rclone', ['mount', source, target, '--daemon', '--config', '/dev/null'], {
    stdio: 'ignore',
    timeout: 30_000,
  });
  const remove = (): void => {
    spawnSync('fusermount3', ['-u', target], { stdio: 'ignore' });
    fs.rmSync(source, { recursive: true });
  };
  if (mounted.status === 0) return { source, remove };
  remove();
  return undefined;
}

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
