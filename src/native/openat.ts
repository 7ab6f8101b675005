// The one way to open something below a directory that is held open: openat2(2) where it can be had, and the same
// by steps of openat(2) where the kernel is older than 5.6 or a sandbox forbids it. Neither follows a link.
import fs from 'node:fs';
import { pathBytes } from '../model/path.ts';
import { lastErrno, libcFunction, systemError } from './libc.ts';
import type { WorkDir } from './work-dir.ts';

const syscall =
  libcFunction<
    [
      number: number,
      'int',
      dirfd: number,
      'void*',
      path: Buffer,
      'void*',
      how: Buffer,
      'size_t',
      size: number,
    ]
  >('long syscall(long, ...)');
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

function openWithOpenat2(dirfd: number, path: string, flags: number): number | undefined {
  if (!haveOpenat2) return undefined;
  const how = Buffer.alloc(24); // struct open_how: flags, mode, resolve
  how.writeBigUInt64LE(BigInt(flags | fs.constants.O_NOFOLLOW | O_CLOEXEC), 0);
  how.writeBigUInt64LE(BigInt(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), 16);
  const fd = syscall(SYS_OPENAT2, 'int', dirfd, 'void*', withNul(path), 'void*', how, 'size_t', how.length);
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
  return Buffer.concat([pathBytes(path), Buffer.of(0)]);
}
