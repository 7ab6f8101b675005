// Opens paths beneath the work directory, starting from directories that are held open. Whatever the task renames or
// replaces meanwhile, no component of a path is followed as a link, and no path leads out. Uses openat2(2), or steps of
// openat(2) if the kernel is older than 5.6 or a sandbox forbids openat2.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath, pathBytes, type RelPath } from '../model/path.ts';
import { bindLibc, lastErrno, libcFunction, systemError } from './libc.ts';

/** The directory that the task works in: an open descriptor and its absolute path. The opener closes it. */
export interface WorkDir {
  readonly fd: number;
  readonly path: string;
}

/**
 * For openat2(2). Declared without `...`, because koffi cannot call a variadic function asynchronously; the arguments
 * go into the same registers.
 */
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
/** open(2): a descriptor for the location only, which needs no permission to read. */
export const O_PATH = 0o10000000;

/**
 * Opens `path` below `root`, closed on exec. No component may be a link, and the path may not lead out. Throws as
 * node:fs does: ENOENT, ENOTDIR, ELOOP (a link), EXDEV (leads out), EACCES.
 */
export function openUnder(root: WorkDir, path: string, flags: number): number {
  return openWithOpenat2(root.fd, path, flags) ?? openBySteps(root.fd, path, flags);
}

let haveOpenat2 = true;
/** struct open_how: flags, mode, resolve, 64 bits each. The flags fit into 32 bits. */
const openHow = Buffer.alloc(24);
openHow.writeBigUInt64LE(BigInt(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), 16);
/** The same, with the flags for holding a directory. */
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

/** Opens each directory below the one before it, and follows no link: as safe as openat2(2), but slower. */
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

/** The path as bytes with a NUL at the end, for libc. */
export function withNul(path: string): Buffer {
  return pathBytes(`${path}\0`);
}

export interface HeldDirectory {
  /** Absolute path to this directory while it is held, even if another directory has its name by then. */
  readonly at: string;
  close(): void;
}

/** Absolute path to the work directory, even if the task has renamed it. Not for messages. */
export function heldPath(root: WorkDir): string {
  return `/proc/self/fd/${root.fd}`;
}

/**
 * Whether the work directory is still at its path. `covered`: a file system is mounted over it, or above it.
 * `unreachable`: nobody can tell (a dead mount, a parent that may not be searched).
 */
export type Whereabouts = 'here' | 'moved' | 'removed' | 'covered' | 'unreachable';

export function whereabouts({ fd, path }: WorkDir): Whereabouts {
  try {
    const held = fs.fstatSync(fd, { bigint: true });
    if (isAt(path, held)) return 'here';
    const now = currentPath(fd);
    // The kernel marks a directory that has no name any more (proc_pid_fd(5)).
    if (now.endsWith(' (deleted)')) return 'removed';
    return isAt(now, held) ? 'moved' : 'covered';
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return 'unreachable';
  }
}

function isAt(name: string, { ino, dev }: fs.BigIntStats): boolean {
  try {
    const there = fs.statSync(encodePath(name), { bigint: true, throwIfNoEntry: false });
    return there?.ino === ino && there.dev === dev;
  } catch (error) {
    if (isBlocked(error)) return false;
    throw error;
  }
}

/** The current path of an open directory. */
export function currentPath(fd: number): string {
  return decodePath(fs.readlinkSync(`/proc/self/fd/${fd}`, { encoding: 'buffer' }));
}

/**
 * Opens a directory and holds it; `''` is the work directory itself. Throws ENOENT or ENOTDIR if it does not exist (any
 * more), ELOOP if a component is a link, EACCES.
 */
export function holdDirectory(root: WorkDir, dir: RelPath): HeldDirectory {
  if (dir === '') return { at: heldPath(root), close: () => undefined };
  // With `/.` behind it, a link fails with ELOOP; without, O_DIRECTORY would make that ENOTDIR.
  const fd = openUnder(root, `${dir}/.`, O_PATH | fs.constants.O_DIRECTORY);
  return { at: `/proc/self/fd/${fd}`, close: () => fs.closeSync(fd) };
}

let waiting: ReturnType<typeof bindLibc> | undefined;

/** The same without blocking the event loop: the directory may be on a network file system. */
export function holdDirectoryAsync(root: WorkDir, dir: RelPath): Promise<HeldDirectory> {
  waiting ??= bindLibc(SYSCALL);
  const call = waiting;
  const name = withNul(`${dir === '' ? '.' : dir}/.`);
  return new Promise((resolve, reject) => {
    const done = (error: Error | null, fd: number): void => {
      if (error === null && fd >= 0)
        return resolve({ at: `/proc/self/fd/${fd}`, close: () => fs.closeSync(fd) });
      // The errno stays in the thread that made the call. Called here again, it fails with its error.
      try {
        resolve(holdDirectory(root, dir));
      } catch (reason) {
        reject(reason);
      }
    };
    call.async(SYS_OPENAT2, root.fd, name, holdHow, holdHow.length, done);
  });
}

/** Calls `act` with an absolute path to `path`, whose last component may be a link. Throws as {@link holdDirectory}. */
export function beneath<T>(root: WorkDir, path: RelPath, act: (full: string | Buffer) => T): T {
  return beneathAsText(root, path, (full) => act(encodePath(full)));
}

/** The same for calls of libc: see {@link withNul}. */
export function beneathAsText<T>(root: WorkDir, path: RelPath, act: (full: string) => T): T {
  const parent = holdParent(root, path);
  try {
    return act(parent.full);
  } finally {
    parent.close();
  }
}

/** The same for an asynchronous `act`. */
export async function beneathAsync<T>(
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

/**
 * True for the errors that {@link beneath} throws if there can be no such file: a link or a file stands in place of a
 * directory, or a name is longer than the file system allows.
 */
export function isBlocked(error: unknown): boolean {
  return ['ENOTDIR', 'ELOOP', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '');
}

/** lstat(2); undefined if nothing has that name. Throws ENOTDIR or ELOOP if a parent is not a directory. */
export function lstatBeneath(root: WorkDir, path: RelPath): fs.BigIntStats | undefined {
  try {
    return beneath(root, path, (full) => fs.lstatSync(full, { bigint: true }));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
