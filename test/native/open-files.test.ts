// Which files other processes have open for writing, told without a question to file systems other than that of the work
// directory: one may be on a server that does not answer.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { FileSystems } from '../../src/native/mounts.ts';
import { writableFiles } from '../../src/native/open-files.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
let elsewhere: TestDir;
let child: ChildProcess | undefined;
beforeEach(() => {
  dir = testDir('/var/tmp');
  elsewhere = testDir('/dev/shm');
});
afterEach(async () => {
  child?.kill('SIGKILL');
  if (child !== undefined && child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  child = undefined;
  dir.remove();
  elsewhere.remove();
});

/** A shell that has run this, and waits. */
async function begin(script: string, ...wrapped: readonly string[]): Promise<number> {
  const [program, ...args] = [...wrapped, 'sh', '-c', `${script}; echo ready; read line`];
  child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  if (child.stdout !== null) await once(child.stdout, 'data');
  return child.pid ?? 0;
}

/** What stat(2) is asked of. */
function asked(): () => readonly string[] {
  const stat = vi.spyOn(fs, 'statSync');
  onTestFinished(() => stat.mockRestore());
  return () => stat.mock.calls.map(([file]) => String(file));
}

it('are named, and no other file system is asked', async () => {
  const pid = await begin(`exec 5>${dir.path}/here 6>${elsewhere.path}/far 7<${dir.path}/here`);
  const calls = asked();
  const files = writableFiles(pid, new FileSystems(dir));
  expect(files).toEqual([
    { path: path.join(dir.path, 'here'), inode: fs.lstatSync(`${dir.path}/here`, { bigint: true }).ino },
  ]);
  expect(calls()).toEqual([`/proc/${pid}/fd/5`]);
});

it.runIf(process.getuid?.() === 0)('are found by another path, in another mount namespace', async () => {
  const at = path.join(elsewhere.path, 'at');
  fs.mkdirSync(at);
  const pid = await begin(`mount --bind ${dir.path} ${at}; exec 5>${at}/here`, 'unshare', '-m');
  const files = writableFiles(pid, new FileSystems(dir));
  expect(files).toEqual([
    { path: `${at}/here`, inode: fs.lstatSync(`${dir.path}/here`, { bigint: true }).ino },
  ]);
});

it.runIf(process.getuid?.() === 0)('are found on what is mounted beneath the work directory', async () => {
  const at = path.join(dir.path, 'mounted');
  fs.mkdirSync(at);
  execFileSync('mount', ['-t', 'tmpfs', 'none', at]);
  try {
    const pid = await begin(`exec 5>${at}/file`);
    expect(writableFiles(pid, new FileSystems(dir))).toMatchObject([{ path: `${at}/file` }]);
    expect(writableFiles(pid, new FileSystems(elsewhere))).toEqual([]);
  } finally {
    execFileSync('umount', ['-l', at]);
  }
});

it.runIf(process.getuid?.() === 0)(
  'are unknown if one is on what is mounted nowhere any more, which is not asked',
  async () => {
    const at = path.join(elsewhere.path, 'gone');
    fs.mkdirSync(at);
    const pid = await begin(`mount -t tmpfs none ${at}; exec 5>${at}/file; umount -l ${at}`, 'unshare', '-m');
    const calls = asked();
    expect(writableFiles(pid, new FileSystems(dir))).toBeUndefined();
    expect(calls()).toEqual([]);
  },
);

it('are asked for as before where the kernel does not tell what they are on', async () => {
  const pid = await begin(`exec 5>${dir.path}/here`);
  const read = fs.readFileSync;
  const reads = vi.spyOn(fs, 'readFileSync').mockImplementation((file, ...rest) => {
    const text = read(file, ...rest);
    return String(file).includes('/fdinfo/') ? String(text).replace(/^mnt_id.*$/m, '') : text;
  });
  onTestFinished(() => reads.mockRestore());
  expect(writableFiles(pid, new FileSystems(dir))?.map((file) => file.path)).toContain(`${dir.path}/here`);
});
