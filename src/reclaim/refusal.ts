// Whether a local file may be deleted: is it still what was pushed, and is nobody about to change it? The
// one place that asks, for a reclaim and for what is deleted later.
import { errnoOf } from '../model/errors.ts';
import type { Fingerprint } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { factsOf, openBeneath, writerState } from '../native/files.ts';

/**
 * Why a file was not deleted. `changed`: it is not what was pushed. `reopened`: somebody has it open for
 * writing. `linked`: it has a second name. `unknown-writer`: the file system cannot tell. `gone`: the task
 * removed it.
 */
export type Refusal = 'changed' | 'reopened' | 'linked' | 'unknown-writer' | 'gone';

/** A file that was pushed, held open: whatever its name does, this is the inode that may go. */
export interface Pushed {
  readonly fd: number;
  /** Its state when its bytes were read. */
  readonly pushed: Fingerprint;
  /** The task has ended: a second link or a file system that cannot name writers is no reason to wait. */
  readonly atEnd: boolean;
}

/** The open file, which the caller closes, or why there is none to delete. */
export function openPushed(
  root: WorkDir,
  path: RelPath,
): { readonly fd: number } | { readonly refusal: Refusal } {
  try {
    return { fd: openBeneath(root, path) };
  } catch (error) {
    switch (errnoOf(error)) {
      case 'ENOENT':
        return { refusal: 'gone' };
      case 'ELOOP':
      case 'ENOTDIR':
      case 'EXDEV':
      case 'EINVAL':
      case 'ENXIO':
        // A link, a directory or a socket has taken its place.
        return { refusal: 'changed' };
      default:
        throw error;
    }
  }
}

/**
 * Why the held file must not go now. The probe comes before the look: whoever had it open for writing and
 * closed it before the probe is seen by the look, and after the move nobody can open it by its path.
 */
export function refusalOf(
  { fd, pushed, atEnd }: Pushed,
  same: (now: Fingerprint, pushed: Fingerprint) => boolean,
): Refusal | undefined {
  const writers = writerState(fd);
  const now = factsOf(fd);
  if (!same(now, pushed)) return 'changed';
  if (writers === 'writer') return 'reopened';
  if (atEnd) return undefined;
  if (now.links > 1) return 'linked';
  return writers === 'unknown' ? 'unknown-writer' : undefined;
}
