// Names that appeared and whose first close has not come. An ordinary new file is closed soon, and that
// event is the one that counts; a link, and an O_TMPFILE file linked in, may have no other event than this.
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { writerOf } from '../native/files.ts';
import { type FoundFile, hasVanished, lookAt } from './scan.ts';

export interface NewNames {
  /** IN_CREATE of anything but a directory. */
  add(path: RelPath): void;
  /** Closed, renamed or removed: nothing is left to find out about it. */
  drop(path: RelPath): void;
  readonly size: number;
  /** Names that somebody holds open since they were made: a file that was closed, renamed or is gone is none. */
  unclosed(): readonly RelPath[];
  /**
   * Looks at what waits. `links` get no other event: tell them. `finished` have bytes and no writer: their close is in
   * the kernel's queue already, or will never come (O_TMPFILE). They go on waiting.
   */
  review(wants: (path: RelPath) => boolean): { readonly links: RelPath[]; readonly finished: RelPath[] };
  /** True, once, for a name that still waits. */
  take(path: RelPath): boolean;
  /** The name below `dir` of an O_TMPFILE file that was linked in while open. */
  ofInode(dir: RelPath, inode: string): RelPath | undefined;
}

/** Files linked in and open at the same time; of more, the directory is searched. */
const REMEMBERED_INODES = 4096;

export function openNewNames(root: WorkDir): NewNames {
  const waiting = new Set<RelPath>();
  const open = new Set<RelPath>();
  const inodes = new Map<string, RelPath>();
  const remember = (file: FoundFile): void => {
    inodes.set(file.facts.ino, file.path);
    const [oldest] = inodes.keys();
    if (inodes.size > REMEMBERED_INODES && oldest !== undefined) inodes.delete(oldest);
  };
  const hasInode = (path: RelPath, inode: string): boolean => lookAt(root, path)?.facts.ino === inode;
  return {
    add: (path) => void waiting.add(path),
    drop: (path) => {
      waiting.delete(path);
      open.delete(path);
    },
    get size() {
      return waiting.size;
    },
    review: (wants) => {
      const links: RelPath[] = [];
      const finished: RelPath[] = [];
      const names = [...waiting].filter(wants);
      waiting.clear();
      for (const path of names) {
        const file = lookAt(root, path);
        if (file === undefined) continue;
        if (file.link || file.facts.links > 1) links.push(path);
        else if (file.facts.size > 0 && !isBeingWritten(root, path)) finished.push(path);
        else {
          remember(file);
          open.add(path);
        }
      }
      for (const path of finished) waiting.add(path);
      return { links, finished };
    },
    unclosed: () => {
      for (const path of open) if (lookAt(root, path) === undefined) open.delete(path);
      return [...open];
    },
    take: (path) => waiting.delete(path),
    ofInode: (dir, inode) => {
      const known = inodes.get(inode);
      if (known !== undefined && hasInode(known, inode)) return known;
      const prefix = dir === '' ? '' : `${dir}/`;
      for (const path of waiting) if (path.startsWith(prefix) && hasInode(path, inode)) return path;
      return undefined;
    },
  };
}

/** Without a lease (another user's file, some file systems) nobody can tell: then nobody counts as its writer. */
function isBeingWritten(root: WorkDir, path: RelPath): boolean {
  try {
    return writerOf(root, path) === 'writer';
  } catch (error) {
    return hasVanished(error);
  }
}
