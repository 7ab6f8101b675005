// Does a symbolic link stay inside the work directory? Told from its text alone, because it must hold before the link
// is made, and whatever the link may lead through later.
import type { RelPath } from '../path.ts';

/**
 * True if a link at `path` with this target can only lead to somewhere below the work directory: it is relative, and
 * has `..` only at its beginning, no more often than the link is deep. A `..` further on could follow a directory
 * that is itself a link, and so end elsewhere than the text says (path_resolution(7)).
 */
export function linkStaysInside(path: RelPath, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0')) return false;
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const down = parts.findIndex((part) => part !== '..');
  if (down === -1) return false; // A directory above the link: the work directory itself would be inside itself.
  return down <= path.split('/').length - 1 && !parts.slice(down).includes('..');
}
