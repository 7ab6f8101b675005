// What the watcher reports. Events flow one way, from the kernel's bytes to decide().
import type { RelPath } from '../path.ts';
import type { Evidence } from './evidence.ts';

/**
 * How a file came to be closed. `close`: IN_CLOSE_WRITE. `rename`: IN_MOVED_TO of the file; `dir-rename`: of a
 * directory above it, so that everything in it came at once. `link`: a new hard or symbolic link, or an O_TMPFILE
 * file linked in. `scan`: found by a scan. `quiet`: the portable fallback saw no change for a while. None proves that
 * no writer is left: the snapshot does.
 */
export type ClosedHow = 'close' | 'rename' | 'link' | 'scan' | 'quiet' | 'dir-rename';

/** A dying process renames and links nothing: a process that lived on put the file there. */
export function isPlaced(how: ClosedHow): boolean {
  return how === 'rename' || how === 'dir-rename' || how === 'link';
}

export interface ClosedEvent {
  readonly path: RelPath;
  readonly how: ClosedHow;
  /** When we read the event, ms since the epoch. */
  readonly atMs: number;
  /** Whether a death may have made it. */
  readonly evidence: Evidence;
}

/** Where to look: compiled from the manifest. */
export interface Interest {
  /** True for a path that has a role. */
  wants(path: RelPath): boolean;
  /** True for a directory ('' is the work directory) in which, at any depth, a declared file can stand. */
  canHold(dir: RelPath): boolean;
}
