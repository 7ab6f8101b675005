// The way back of a file that was set aside for deletion: to its old path, and never over anything.
import { errnoOf } from '../model/errors.ts';
import type { RelPath } from '../model/path.ts';
import { makeParents, moveInside } from '../native/own-dir.ts';
import type { WorkDir } from '../native/work-dir.ts';

/** False when the path is taken, or cannot be made because its directory is now a file or a link. */
export function putBack(root: WorkDir, from: RelPath, path: RelPath): boolean {
  try {
    makeParents(root, path);
    return moveInside(root, from, path);
  } catch (error) {
    if (errnoOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}
