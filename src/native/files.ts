// File calls that keep capture inside the work directory and out of the way of programs that write: open beneath a
// directory, find writers, rename without overwriting, lock, set times. None of them ever blocks on a FIFO or a device.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import type { FileFacts } from '../model/file/file-state.ts';
import { encodePath, type RelPath } from '../model/path.ts';
import { lstatBeneath, openUnder, withNul, type WorkDir } from './beneath.ts';
import { bindLibc, lastErrno, libcFunction, systemError } from './libc.ts';
import { isOursOrRoots } from './users.ts';

const fcntl =
  libcFunction<[fd: number, command: number, type: 'int', value: number]>('int fcntl(int, int, ...)');
const flock = libcFunction<[fd: number, operation: number]>('int flock(int, int)');
const RENAMEAT2 = 'int renameat2(int, const void*, int, const void*, unsigned int)';
const renameat2 = libcFunction<[number, Buffer, number, Buffer, number]>(RENAMEAT2);
const futimens = libcFunction<[fd: number, times: Buffer]>('int futimens(int, const void*)');

const NS_PER_S = 1_000_000_000n;
const F_SETLEASE = 1024;
const F_RDLCK = 0;
const F_UNLCK = 2;
const LOCK_EX_NB = 2 | 4;
const AT_FDCWD = -100;
const RENAME_NOREPLACE = 1;
/** FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE */
const PUNCH_HOLE = 2 | 1;

/** These two are bound on first use. */
let renaming: ReturnType<typeof bindLibc> | undefined;
let fallocate: ReturnType<typeof bindLibc> | undefined;

export type WriterState = 'none' | 'writer' | 'unknown';

/**
 * Does any process have this file open for writing, or a writable mapping of it? Takes a read lease and releases it at
 * once (fcntl(2), F_SETLEASE); a writer that opens the file in between waits for us. `unknown` if leases do not work:
 * another user's file, network file systems. Call {@link ignoreLeaseBreaks} before.
 */
export function writerState(fd: number): WriterState {
  if (fcntl(fd, F_SETLEASE, 'int', F_RDLCK) === 0) {
    fcntl(fd, F_SETLEASE, 'int', F_UNLCK);
    return 'none';
  }
  return lastErrno() === 'EAGAIN' ? 'writer' : 'unknown';
}

/**
 * If a writer opens a file during our lease, the kernel sends us SIGIO, which by default ends the process (fcntl(2)).
 * Each process that looks for writers calls this, once or more often.
 */
export function ignoreLeaseBreaks(): void {
  if (!process.listeners('SIGIO').includes(ignore)) process.on('SIGIO', ignore);
}

function ignore(): void {}

/** The {@link writerState} of a path beneath `root`; throws as {@link openBeneath} does. */
export function writerOf(root: WorkDir, path: string): WriterState {
  const fd = openBeneath(root, path);
  try {
    return writerState(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Opens a regular file beneath `root` for reading. No component may be a link, the path may not lead out, and the open
 * never waits (O_NONBLOCK). Throws ENOENT, ELOOP (a link), EXDEV (leads out), EINVAL (not a regular file), EACCES.
 * `seen`: the result of a recent {@link lstatBeneath}.
 */
export function openBeneath(root: WorkDir, path: string, seen = lstatBeneath(root, path)): number {
  refuseSpecial(seen, path);
  const fd = openUnder(root, path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    if (!fs.fstatSync(fd).isFile()) throw systemError('open (not a regular file)', 'EINVAL', path);
    return fd;
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

/**
 * Opens a regular file at a path where others may have put something else. Follows no link in the last component, and
 * never waits for the other end of a FIFO (fifo(7)). `flags` as in open(2); a new file has mode 0600. Throws EINVAL if
 * it is not a regular file, and ELOOP if it is a link.
 */
export function openRegular(path: string, flags: number): number {
  const { O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = fs.constants;
  const fd = fs.openSync(encodePath(path), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0o600);
  if (fs.fstatSync(fd).isFile()) return fd;
  fs.closeSync(fd);
  throw systemError('open (not a regular file)', 'EINVAL', path);
}

/**
 * Opens a file that the user has named, to append to it; makes it with the mode 0644 under the umask. Another user's
 * link is not followed, and their FIFO is not opened: EPERM. fs.protected_symlinks (proc_sys_fs(5)) knows only sticky
 * directories, and a directory of a group is none. A FIFO that nobody reads: ENXIO.
 */
export function openToAppend(file: string): number {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  const path = encodePath(file);
  const there = fs.lstatSync(path, { throwIfNoEntry: false });
  const isLink = there?.isSymbolicLink() === true;
  if ((isLink || there?.isFIFO() === true) && !isOursOrRoots(there.uid))
    throw systemError(`open (user ${there.uid} has made this ${isLink ? 'link' : 'FIFO'})`, 'EPERM', file);
  // Whatever takes its place now is neither followed nor waited for.
  const flags = O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | (isLink ? 0 : O_NOFOLLOW);
  const fd = fs.openSync(path, flags, 0o644);
  const isSpecial = there !== undefined && !there.isFile();
  if (isSpecial || fs.fstatSync(fd).isFile()) return fd;
  fs.closeSync(fd);
  throw systemError('open (not a regular file)', 'EINVAL', file);
}

/** Opening a FIFO would let its writer go on, and opening a device may move it (fifo(7), st(4)). */
function refuseSpecial(stat: fs.BigIntStats | undefined, path: string): void {
  if (stat === undefined || stat.isFile() || stat.isSymbolicLink()) return;
  throw systemError('open (not a regular file)', 'EINVAL', path);
}

/**
 * Renames unless the new name exists (renameat2(2), RENAME_NOREPLACE); false if it does. If the file system does not
 * have that flag, makes a hard link and unlinks the old name.
 */
export function renameNoReplace(from: string, to: string): boolean {
  if (renameat2(AT_FDCWD, withNul(from), AT_FDCWD, withNul(to), RENAME_NOREPLACE) === 0) return true;
  const code = lastErrno();
  if (code === 'EEXIST') return false;
  if (code !== 'EINVAL' && code !== 'ENOSYS') throw systemError('renameat2', code, from);
  try {
    fs.linkSync(encodePath(from), encodePath(to));
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false;
    throw error;
  }
  fs.unlinkSync(encodePath(from));
  return true;
}

/** The same without blocking the event loop: the names may be on a network file system. */
export function renameNoReplaceAsync(from: string, to: string): Promise<boolean> {
  renaming ??= bindLibc(RENAMEAT2);
  const call = renaming;
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, result: number): void => {
      if (error === null && result === 0) return resolve(true);
      // The errno stays in the thread that made the call. Called here again, it fails with its error.
      try {
        resolve(renameNoReplace(from, to));
      } catch (reason) {
        reject(reason);
      }
    };
    call.async(AT_FDCWD, withNul(from), AT_FDCWD, withNul(to), RENAME_NOREPLACE, done);
  });
}

/** Makes a file for reading and writing that never keeps a name, so that nothing stays of it. Throws as open(2) does. */
export function createUnnamed(dir: string): number {
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
  const name = encodePath(`${dir}/capture-spool-${randomUUID()}`);
  const fd = fs.openSync(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  fs.unlinkSync(name);
  return fd;
}

/**
 * Frees what a part of a file takes on the disk; from now on it reads as zeros, and the size stays (fallocate(2)).
 * Rejects with EOPNOTSUPP on a file system that cannot do this (NFS before 4.2).
 */
export function punchHole(fd: number, fromBytes: number, toBytes: number): Promise<void> {
  fallocate ??= bindLibc('int fallocate(int, int, int64_t, int64_t)');
  const call = fallocate;
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, result: number): void => {
      if (error === null && result === 0) resolve();
      else reject(error ?? systemError('fallocate', lastErrno()));
    };
    call.async(fd, PUNCH_HOLE, fromBytes, toBytes - fromBytes, done);
  });
}

/** Takes the exclusive lock of an open file without waiting (flock(2)); false if another process has it. */
export function tryLock(fd: number): boolean {
  if (flock(fd, LOCK_EX_NB) === 0) return true;
  const code = lastErrno();
  if (code === 'EAGAIN') return false;
  throw systemError('flock', code);
}

/**
 * Sets atime and mtime of an open file (futimens(2)). `mtimeNs`: ns since the epoch, as a decimal string. Node's utimes
 * takes a double, which is too coarse to restore a time exactly.
 */
export function setMtime(fd: number, mtimeNs: string): void {
  const ns = BigInt(mtimeNs);
  const rest = ((ns % NS_PER_S) + NS_PER_S) % NS_PER_S;
  const times = Buffer.alloc(32); // struct timespec[2]: seconds, ns; atime, mtime
  for (const at of [0, 16]) {
    times.writeBigInt64LE(BigInt.asIntN(64, (ns - rest) / NS_PER_S), at);
    times.writeBigInt64LE(rest, at + 8);
  }
  if (futimens(fd, times) !== 0) throw systemError('futimens', lastErrno());
}

export function fileFacts(stat: fs.BigIntStats): FileFacts {
  return {
    dev: String(stat.dev),
    ino: String(stat.ino),
    size: Number(stat.size),
    mtimeNs: String(stat.mtimeNs),
    ctimeNs: String(stat.ctimeNs),
    mode: Number(stat.mode) & 0o7777,
    links: Number(stat.nlink),
  };
}

export function factsOf(fd: number): FileFacts {
  return fileFacts(fs.fstatSync(fd, { bigint: true }));
}

/** lstat(2) of a path; undefined if no file is there (any more). */
export function factsBeneath(root: WorkDir, path: RelPath): FileFacts | undefined {
  try {
    const stat = lstatBeneath(root, path);
    return stat === undefined || stat.isDirectory() ? undefined : fileFacts(stat);
  } catch {
    // ENOTDIR, ELOOP: a parent was replaced, so the path leads to no file of the work directory.
    return undefined;
  }
}

/** lstat(2) of a directory; undefined if there is none, or it cannot be looked at. `isOurs`: it belongs to our user. */
export function directoryState(
  root: WorkDir,
  dir: RelPath,
): { readonly facts: FileFacts; readonly isOurs: boolean } | undefined {
  try {
    const stat = lstatBeneath(root, dir);
    if (stat?.isDirectory() !== true) return undefined;
    return { facts: fileFacts(stat), isOurs: Number(stat.uid) === process.geteuid?.() };
  } catch {
    return undefined;
  }
}

/** ext4, XFS, Btrfs, tmpfs: `f_type` of statfs(2). They have multigrain timestamps since Linux 6.13 (FS_MGTIME). */
const MULTIGRAIN: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x9123683e, 0x01021994]);

/**
 * Two writes within one clock tick (up to 10 ms) have the same mtime, unless the file system has multigrain timestamps.
 * Git calls such files "racy".
 */
const TICK_MS = 20;
/** Some file systems keep whole seconds only: ext4 with inodes of 128 bytes, ext3. FAT keeps even ones. */
const SECOND_MS = 1000;
const MSDOS = 0x4d44;

/**
 * For how many more ms a file that changed `ageMs` ago may change again while all its times stay as they are. Below 0,
 * the file's clock is ahead: then the whole time. `type`: `f_type` of statfs(2), asked for only if it matters.
 */
export function unseenForMs(
  facts: FileFacts,
  ageMs: number,
  kernelRelease: string,
  type: () => number,
): number {
  const isWhole = hasWholeSeconds(facts);
  if (ageMs >= (isWhole ? 2 * SECOND_MS : 0) + TICK_MS) return 0;
  if (isWhole) return leftMs((type() === MSDOS ? 2 : 1) * SECOND_MS + TICK_MS, ageMs);
  return showsEachWrite(kernelRelease, type()) ? 0 : leftMs(TICK_MS, ageMs);
}

/** Of `forMs`, after `ageMs`. */
export function leftMs(forMs: number, ageMs: number): number {
  return Math.max(0, Math.min(forMs, forMs - ageMs));
}

/** No program can set a ctime: if it has no fraction, the file system keeps none. */
function hasWholeSeconds({ ctimeNs }: FileFacts): boolean {
  return BigInt(ctimeNs) % NS_PER_S === 0n;
}

/** True if each write after a stat(2) changes the times of a file on this type of file system. */
export function showsEachWrite(kernelRelease: string, type: number): boolean {
  const [major = 0, minor = 0] = kernelRelease.split('.').map((part) => Number.parseInt(part, 10));
  return (major > 6 || (major === 6 && minor >= 13)) && MULTIGRAIN.has(type >>> 0);
}

/** When the inode at a path was created, ns since the epoch; 0 if unknown. */
export function bornNsOf(root: WorkDir, path: RelPath): bigint {
  try {
    return lstatBeneath(root, path)?.birthtimeNs ?? 0n;
  } catch {
    return 0n;
  }
}
