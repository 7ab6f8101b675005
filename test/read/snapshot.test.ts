import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import koffi from 'koffi';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { factsOf } from '../../src/native/files.ts';
import { movedSince, openSnapshot, type Snapshot } from '../../src/read/snapshot.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

describe('on a kernel that does not show every write', () => {
  const OLD = '5.14.0';

  it('asks to wait for a file that was written just now', () => {
    dir.write('r.dat', 'content');
    const opened = openSnapshot(dir, 'r.dat', { kernelRelease: OLD, nowMs: changedMs('r.dat') + 5 });
    expect(opened).toEqual({ kind: 'fresh', waitMs: 15, facts: dir.facts('r.dat') });
  });

  it('asks to wait also if the program has put its time back', () => {
    dir.write('r.dat', 'content');
    fs.utimesSync(path.join(dir.path, 'r.dat'), 1, 1);
    const opened = openSnapshot(dir, 'r.dat', { kernelRelease: OLD, nowMs: changedMs('r.dat') + 5 });
    expect(opened).toMatchObject({ kind: 'fresh', waitMs: 15 });
  });

  it('opens the file when it still has the same state after that, whatever the clocks say', () => {
    dir.write('r.dat', 'content');
    const rules = { kernelRelease: OLD, nowMs: changedMs('r.dat') - 1000 };
    const opened = openSnapshot(dir, 'r.dat', rules);
    expect(opened).toMatchObject({ kind: 'fresh', waitMs: 20 });
    const again = openSnapshot(dir, 'r.dat', { ...rules, seen: dir.facts('r.dat') });
    expect(again.kind).toBe('open');
    close(again as Snapshot);
  });

  it('gives the file up when it was written again', () => {
    dir.write('r.dat', 'content');
    const seen = dir.facts('r.dat');
    dir.write('r.dat', 'again');
    const rules = { kernelRelease: OLD, nowMs: changedMs('r.dat'), seen };
    expect(openSnapshot(dir, 'r.dat', rules)).toEqual({ kind: 'moved' });
  });
});

it('asks to wait for it on a file system with coarse times, too, whatever the kernel', async () => {
  const place = path.join(dir.path, 'ramfs');
  fs.mkdirSync(place);
  const script = `mount -t ramfs none '${place}' && echo content > '${place}/r.dat' && echo ready && read -r end`;
  const words = ['--user', '--map-root-user', '--mount', 'sh', '-c', script];
  const other = spawn('unshare', words, { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await once(other.stdout, 'data');
    const fd = fs.openSync(`/proc/${other.pid}/root${place}/r.dat`, 'r');
    const facts = factsOf(fd);
    const nowMs = Number(BigInt(facts.ctimeNs) / 1_000_000n) + 5;
    const opened = openSnapshot(dir, 'r.dat', { held: { fd, facts }, kernelRelease: '6.18.0', nowMs });
    expect(opened).toEqual({ kind: 'fresh', waitMs: 15, facts });
    fs.closeSync(fd);
  } finally {
    other.stdin.end();
    await once(other, 'close');
  }
});

it('sees a writer that has closed the file and still maps it', () => {
  const shm = fs.mkdtempSync('/dev/shm/capture-test-');
  const fd = fs.openSync(shm, 'r');
  fs.writeFileSync(`${shm}/r.dat`, Buffer.alloc(4096));
  const libc = koffi.load(null);
  const mmap = libc.func('void *mmap(void*, size_t, int, int, int, long)');
  const munmap = libc.func('int munmap(void*, size_t)');
  const writer = fs.openSync(`${shm}/r.dat`, 'r+');
  const READ_WRITE = 3;
  const MAP_SHARED = 1;
  const memory: unknown = mmap(null, 4096, READ_WRITE, MAP_SHARED, writer, 0);
  fs.closeSync(writer);

  const rules = { kernelRelease: '6.18.0', nowMs: Date.now() };
  expect(openSnapshot({ fd, path: shm }, 'r.dat', rules)).toEqual({ kind: 'writer' });
  munmap(memory, 4096);
  const opened = openSnapshot({ fd, path: shm }, 'r.dat', rules);
  expect(opened.kind).toBe('open');
  close(opened as Snapshot);
  fs.closeSync(fd);
  fs.rmSync(shm, { recursive: true });
});

it('finds a later writer and a later change, and finds nothing when there was none', () => {
  const file = dir.write('r.dat', 'content');
  const snapshot = openSnapshot(dir, 'r.dat', { kernelRelease: '6.18.0', nowMs: Date.now() }) as Snapshot;
  expect(movedSince(snapshot)).toBeUndefined();
  const writer = fs.openSync(file, 'r+');
  expect(movedSince(snapshot)).toBe('writer');
  fs.writeSync(writer, 'C');
  expect(movedSince(snapshot)).toBe('writer');
  fs.closeSync(writer);
  expect(movedSince(snapshot)).toBe('moved');
  close(snapshot);
});

function changedMs(name: string): number {
  return Number(BigInt(dir.facts(name).ctimeNs) / 1_000_000n);
}

function close({ fd }: Snapshot): void {
  fs.closeSync(fd);
}
