// One syncfs(2) in place of an fsync(2) for each of many files. Used only if it is as good: it must wait until all is
// on the disk, and report if something could not be written.
import os from 'node:os';
import type { WorkDir } from './beneath.ts';
import { bindLibc, lastErrno, libcFunction, systemError } from './libc.ts';
import { fileSystemType } from './network-files.ts';

const syncfs = libcFunction<[fd: number]>('int syncfs(int)');

/**
 * `f_type` of statfs(2), from linux/magic.h: local file systems, on which syncfs does what fsync does. A network file
 * system, FUSE or an overlay may leave data at the server, or hide errors of the file system below.
 */
const SYNCED_AS_A_WHOLE: ReadonlySet<number> = new Set([
  0xef53, // ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0xf2f52010, // f2fs
  0x01021994, // tmpfs
]);

/** Before this version, syncfs(2) succeeds even if a file could not be written. */
const FIRST_KERNEL_THAT_TELLS = [5, 8] as const;

export function reportsFailedWrites(release: string): boolean {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10));
  const [firstMajor, firstMinor] = FIRST_KERNEL_THAT_TELLS;
  return major > firstMajor || (major === firstMajor && minor >= firstMinor);
}

/** True if {@link syncFileSystem} can replace an fsync of each file beneath the directory. */
export function canSyncFileSystem({ path }: WorkDir): boolean {
  if (!reportsFailedWrites(os.release())) return false;
  if (!SYNCED_AS_A_WHOLE.has(fileSystemType(path) >>> 0)) return false;
  // A sandbox may forbid the call: then it fails with ENOSYS or EPERM, whatever the descriptor.
  return syncfs(-1) === -1 && lastErrno() === 'EBADF';
}

let waiting: ReturnType<typeof bindLibc> | undefined;

/**
 * Resolves when all that was written to the file system of an open directory is on the disk. Rejects if something could
 * not be written since the directory was opened: any file may be affected.
 */
export function syncFileSystem({ fd, path }: WorkDir): Promise<void> {
  waiting ??= bindLibc('int syncfs(int)');
  const call = waiting;
  return new Promise((resolve, reject) => {
    call.async(fd, (error: Error | null, result: number) => {
      if (error !== null) reject(error);
      else if (result === 0) resolve();
      else reject(systemError('syncfs', lastErrno(), path));
    });
  });
}
