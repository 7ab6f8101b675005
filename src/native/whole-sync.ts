// One syncfs(2) in place of an fsync(2) for each of many files. Only where it is as good: it must wait until all is on
// the disk, and say if something could not be written.
import os from 'node:os';
import type { WorkDir } from './beneath.ts';
import { bindLibc, lastErrno, libcFunction, systemError } from './libc.ts';
import { fileSystemType } from './network-files.ts';

const syncfs = libcFunction<[fd: number]>('int syncfs(int)');

/**
 * `f_type` of statfs(2), from linux/magic.h: local ones, whose syncfs does what fsync does. That of a network file system,
 * of FUSE or of an overlay may leave something at the server, or hide what went wrong below.
 */
const SYNCED_AS_A_WHOLE: ReadonlySet<number> = new Set([
  0xef53, // ext4
  0x58465342, // xfs
  0x9123683e, // btrfs
  0xf2f52010, // f2fs
  0x01021994, // tmpfs
]);

/** Before, syncfs(2) succeeds also if a file could not be written. */
const FIRST_KERNEL_THAT_TELLS = [5, 8] as const;

export function tellsOfFailedWrites(release: string): boolean {
  const [major = 0, minor = 0] = release.split('.').map((part) => Number.parseInt(part, 10));
  const [firstMajor, firstMinor] = FIRST_KERNEL_THAT_TELLS;
  return major > firstMajor || (major === firstMajor && minor >= firstMinor);
}

/** True if {@link syncWhole} may stand for an fsync of each file beneath the directory. */
export function canSyncWhole({ path }: WorkDir): boolean {
  if (!tellsOfFailedWrites(os.release())) return false;
  if (!SYNCED_AS_A_WHOLE.has(fileSystemType(path) >>> 0)) return false;
  // A sandbox may forbid it: then it says ENOSYS or EPERM, and not what is wrong with the descriptor.
  return syncfs(-1) === -1 && lastErrno() === 'EBADF';
}

let waiting: ReturnType<typeof bindLibc> | undefined;

/**
 * Resolves when all that was written to the file system of an open directory is on the disk. Throws if something could
 * not be written since the directory was opened: nobody knows what.
 */
export function syncWhole({ fd, path }: WorkDir): Promise<void> {
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
