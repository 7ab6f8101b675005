// Does a symbolic link stay inside the work directory? Judged by its text alone: the answer must hold before the link
// is made, and whatever the link's path leads through later.
import type { RelPath } from '../path.ts';
import { OWN_DIR } from './manifest.ts';

/** How a reason ends, if nothing else stands between the file and the store. */
export const IS_LINKED = 'is a symbolic link to a directory';

export const LINKED_HINT =
  'declare the directory by its own name, or give the link to --exclude; capture follows no link to a directory';

/**
 * True if a link at `path` with this target can only lead below the work directory: the target is relative and has
 * `..` only at its beginning, at most as often as the link is deep. A later `..` could follow a directory that is
 * itself a link, and so lead elsewhere than the text says (path_resolution(7)). Nor may it lead into capture's own
 * directory.
 */
export function linkStaysInside(path: RelPath, target: string): boolean {
  if (target === '' || target.startsWith('/') || target.includes('\0')) return false;
  const parts = target.split('/').filter((part) => part !== '' && part !== '.');
  const down = parts.findIndex((part) => part !== '..');
  if (down === -1) return false; // The target is a directory above the link: the work directory would contain itself.
  const [, ...above] = path.split('/').toReversed();
  const from = above.toReversed().slice(0, Math.max(0, above.length - down));
  const leadsTo = [...from, ...parts.slice(down)];
  return down <= above.length && !parts.slice(down).includes('..') && leadsTo[0] !== OWN_DIR;
}
