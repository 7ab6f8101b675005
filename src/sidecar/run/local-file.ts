// A declared file as it stands in the work directory now.
import type { FileFacts } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import { fileFacts } from '../../native/files.ts';

/** lstat of a path; undefined if it is gone. */
export function statMember(root: WorkDir, path: RelPath): FileFacts | undefined {
  try {
    const stat = lstatBeneath(root, path);
    return stat === undefined || stat.isDirectory() ? undefined : fileFacts(stat);
  } catch {
    // ENOTDIR, ELOOP: a parent was replaced, so the path no longer names a declared file.
    return undefined;
  }
}

/** When the inode under a path was created, ns since the epoch; 0 if nobody knows. */
export function bornNsOf(root: WorkDir, path: RelPath): bigint {
  try {
    return lstatBeneath(root, path)?.birthtimeNs ?? 0n;
  } catch {
    return 0n;
  }
}
