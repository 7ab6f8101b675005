// One capture per work directory. The kernel holds the lock, so it ends with the process, whatever ends the process.
import fs from 'node:fs';
import { CaptureError, errnoOf, isFull, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { LOCK_FILE, OWN_DIR } from '../../model/file/manifest.ts';
import { tryLock } from '../../native/files.ts';
import { makePrivateDir, openPrivateFile } from '../../native/private-dir.ts';

export interface WorkdirLock {
  close(): void;
}

/** The error of a start that fails because nothing can be written there. */
export function cannotWrite(workdir: string, error: unknown): CaptureError {
  return new CaptureError(
    isFull(error) ? EXIT.unavailable : EXIT.usage,
    `cannot write in the work directory ${workdir}: ${reasonOf(error)}`,
    {
      hint: isFull(error) ? 'make room there' : 'give the task a directory of its own with --workdir',
      cause: error,
    },
  );
}

/** If the file system has become read-only since the lock file was created, the lock can still be taken (flock(2)). */
function openLock(dir: string): number {
  const { O_RDONLY, O_RDWR, O_CREAT } = fs.constants;
  try {
    return openPrivateFile(dir, LOCK_FILE, O_RDWR | O_CREAT);
  } catch (error) {
    if (errnoOf(error) !== 'EROFS') throw error;
    return openPrivateFile(dir, LOCK_FILE, O_RDONLY);
  }
}

/**
 * Creates `.capture/` and takes the lock in it. Throws status 64 if the directory is not writable, or if another
 * capture holds the lock and `shared` is false; 69 if it is full.
 */
export function lockWorkdir(workdir: string, shared: boolean): WorkdirLock {
  let fd: number;
  try {
    makePrivateDir(`${workdir}/${OWN_DIR}`);
    fd = openLock(`${workdir}/${OWN_DIR}`);
  } catch (error) {
    throw cannotWrite(workdir, error);
  }
  if (tryLock(fd) || shared) return { close: () => fs.closeSync(fd) };
  fs.closeSync(fd);
  throw new CaptureError(EXIT.usage, `another capture is at work in ${workdir}`, {
    hint: '--workdir auto gives each task a directory of its own; or --shared-workdir when their files differ by name; the sidecar of a run whose launcher was killed stores until it is done: wait for it',
  });
}
