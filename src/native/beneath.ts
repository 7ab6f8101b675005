// What stands beneath the work directory, reached from directories that are held open: whatever the task renames or
// replaces meanwhile, no component of a path is ever a link, and none leads out. openat2(2) opens it where it can be had,
// steps of openat(2) where the kernel is older than 5.6 or a sandbox forbids it.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath, pathBytes, type RelPath } from '../model/path.ts';
import { bindLibc, lastErrno, libcFunction, systemError } from './libc.ts';

/** The directory that the task works in: open, and its absolute path. Who opens it closes it. */
export interface WorkDir {
  readonly fd: number;
  readonly path: string;
}

/** openat2(2) by its number. Declared without `...`: koffi cannot call that asynchronously, and the registers are the same. */
const SYSCALL = 'long syscall(long, int, const void*, const void*, size_t)';
const syscall =
  libcFunction<[number: number, dirfd: number, path: Buffer, how: Buffer, size: number]>(SYSCALL);
const openat = libcFunction<[dirfd: number, path: Buffer, flags: number]>(
  'int openat(int, const void*, int, ...)',
);

/** The same number on every Linux architecture (syscalls(2)). */
const SYS_OPENAT2 = 437;
const RESOLVE_NO_SYMLINKS = 0x04;
const RESOLVE_BENEATH = 0x08;
const O_CLOEXEC = 0o2000000;
/** open(2): only the place, which needs no right to read. */
export const O_PATH = 0o10000000;

/**
 * Opens `path` below `root`: no component may be a link, none may lead out; closed on exec. Throws as node:fs does:
 * ENOENT, ENOTDIR, ELOOP (a link), EXDEV (leads out), EACCES.
 */
export function openUnder(root: WorkDir, path: string, flags: number): number {
  return openWithOpenat2(root.fd, path, flags) ?? openBySteps(root.fd, path, flags);
}

let haveOpenat2 = true;
/** struct open_how: flags, mode, resolve; 64 bits each. Flags have 32. */
const openHow = Buffer.alloc(24);
openHow.writeBigUInt64LE(BigInt(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), 16);
/** The same to hold a directory. */
const holdHow = Buffer.from(openHow);
holdHow.writeUInt32LE(O_PATH | fs.constants.O_DIRECTORY | fs.constants.O_NOFOLLOW | O_CLOEXEC, 0);

function openWithOpenat2(dirfd: number, path: string, flags: number): number | undefined {
  if (!haveOpenat2) return undefined;
  openHow.writeUInt32LE(flags | fs.constants.O_NOFOLLOW | O_CLOEXEC, 0);
  const name = withNul(path);
  const fd = syscall(SYS_OPENAT2, dirfd, name, openHow, openHow.length);
  if (fd >= 0) return fd;
  const code = lastErrno();
  if (code !== 'ENOSYS' && code !== 'EPERM') throw systemError('openat2', code, path);
  haveOpenat2 = false;
  return undefined;
}

/** Each directory is opened below the one before it, none through a link: as sure as openat2(2), and slower. */
export function openBySteps(dirfd: number, path: string, flags: number): number {
  const parts = path.split('/');
  const name = parts.pop() ?? '';
  let at = dirfd;
  try {
    for (const part of parts) {
      const next = openAt(at, part, O_PATH | fs.constants.O_DIRECTORY, path);
      if (at !== dirfd) fs.closeSync(at);
      at = next;
    }
    return openAt(at, name, flags, path);
  } finally {
    if (at !== dirfd) fs.closeSync(at);
  }
}

function openAt(dirfd: number, name: string, flags: number, path: string): number {
  if (name === '..') throw systemError('openat', 'EXDEV', path);
  const fd = openat(dirfd, withNul(name), flags | fs.constants.O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0) return fd;
  throw systemError('openat', lastErrno(), path);
}

/** A path as libc wants it. */
export function withNul(path: string): Buffer {
  return pathBytes(`${path}\0`);
}

export interface HeldDirectory {
  /** Absolute path that leads to this directory while it is held, even if another one has its name by then. */
  readonly at: string;
  close(): void;
}

/** Absolute path that leads to the work directory even if the task has renamed it. Not for messages. */
export function heldPath(root: WorkDir): string {
  return `/proc/self/fd/${root.fd}`;
}

/** What the task has done to its work directory. */
export type Whereabouts = 'here' | 'moved' | 'removed';

export function whereabouts({ fd, path }: WorkDir): Whereabouts {
  const held = fs.fstatSync(fd, { bigint: true });
  const there = fs.statSync(encodePath(path), { bigint: true, throwIfNoEntry: false });
  if (there?.ino === held.ino && there.dev === held.dev) return 'here';
  // The kernel's word for a directory without a name (proc_pid_fd(5)).
  return currentPath(fd).endsWith(' (deleted)') ? 'removed' : 'moved';
}

/** Where an open directory stands now. */
export function currentPath(fd: number): string {
  return decodePath(fs.readlinkSync(`/proc/self/fd/${fd}`, { encoding: 'buffer' }));
}

/**
 * Holds a directory; `''` is the work directory itself. Throws ENOENT, ENOTDIR, ELOOP (a link) when it is not there
 * (any more), EACCES.
 */
export function holdDirectory(root: WorkDir, dir: RelPath): HeldDirectory {
  if (dir === '') return { at: heldPath(root), close: () => undefined };
  // With a step behind it a link is ELOOP, and not what O_DIRECTORY says of it.
  const fd = openUnder(root, `${dir}/.`, O_PATH | fs.constants.O_DIRECTORY);
  return { at: `/proc/self/fd/${fd}`, close: () => fs.closeSync(fd) };
}

let waiting: ReturnType<typeof bindLibc> | undefined;

/** The same, and the event loop goes on meanwhile: the directory may be at the other end of a network. */
export function holdDirectoryLater(root: WorkDir, dir: RelPath): Promise<HeldDirectory> {
  waiting ??= bindLibc(SYSCALL);
  const call = waiting;
  const name = withNul(`${dir === '' ? '.' : dir}/.`);
  return new Promise((resolve, reject) => {
    const then = (error: Error | null, fd: number): void => {
      if (error === null && fd >= 0)
        return resolve({ at: `/proc/self/fd/${fd}`, close: () => fs.closeSync(fd) });
      // The errno stays in the thread that has made the call.
      try {
        resolve(holdDirectory(root, dir));
      } catch (reason) {
        reject(reason);
      }
    };
    call.async(SYS_OPENAT2, root.fd, name, holdHow, holdHow.length, then);
  });
}

/** What `act` makes of an absolute path to `path`, whose last component may be a link; throws as above. */
export function beneath<T>(root: WorkDir, path: RelPath, act: (full: string | Buffer) => T): T {
  return beneathAsText(root, path, (full) => act(encodePath(full)));
}

/** The same for calls of libc, see {@link withNul}. */
export function beneathAsText<T>(root: WorkDir, path: RelPath, act: (full: string) => T): T {
  const parent = holdParent(root, path);
  try {
    return act(parent.full);
  } finally {
    parent.close();
  }
}

/** The same of a call that takes a while. */
export async function beneathMeanwhile<T>(
  root: WorkDir,
  path: RelPath,
  act: (full: string | Buffer) => Promise<T>,
): Promise<T> {
  const parent = holdParent(root, path);
  try {
    return await act(encodePath(parent.full));
  } finally {
    parent.close();
  }
}

function holdParent(root: WorkDir, path: RelPath): HeldDirectory & { readonly full: string } {
  const cut = path.lastIndexOf('/');
  const parent = holdDirectory(root, path.slice(0, Math.max(0, cut)));
  return { ...parent, full: `${parent.at}/${path.slice(cut + 1)}` };
}

/** What {@link beneath} throws where a link or a file stands in place of a directory. */
export function isBlocked(error: unknown): boolean {
  return ['ENOTDIR', 'ELOOP'].includes(errnoOf(error) ?? '');
}

/** lstat(2); undefined when there is nothing of that name. Throws ENOTDIR or ELOOP when no directory leads there. */
export function lstatBeneath(root: WorkDir, path: RelPath): fs.BigIntStats | undefined {
  try {
    return beneath(root, path, (full) => fs.lstatSync(full, { bigint: true }));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
