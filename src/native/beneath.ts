// Directories beneath the work directory, held open: what we look at stays inside it, whatever the task renames or
// replaces meanwhile. No component of a path is ever a link, and none leads out.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath, type RelPath } from '../model/path.ts';
import { O_PATH, openUnder } from './openat.ts';
import type { WorkDir } from './work-dir.ts';

export interface HeldDirectory {
  /** Absolute path that leads to this directory while it is held, even if another one has its name by then. */
  readonly at: string;
  close(): void;
}

/** Absolute path that leads to the work directory even if the task has renamed it. Not for messages. */
export function heldPath(root: WorkDir): string {
  return `/proc/self/fd/${root.fd}`;
}

/** What the task has done to its work directory. */
export type Whereabouts = 'here' | 'moved' | 'removed';

export function whereabouts({ fd, path }: WorkDir): Whereabouts {
  const held = fs.fstatSync(fd, { bigint: true });
  const there = fs.statSync(encodePath(path), { bigint: true, throwIfNoEntry: false });
  if (there?.ino === held.ino && there.dev === held.dev) return 'here';
  // The kernel's word for a directory without a name (proc_pid_fd(5)).
  return currentPath(fd).endsWith(' (deleted)') ? 'removed' : 'moved';
}

/** Where an open directory stands now. */
export function currentPath(fd: number): string {
  return decodePath(fs.readlinkSync(`/proc/self/fd/${fd}`, { encoding: 'buffer' }));
}

/**
 * Holds a directory; `''` is the work directory itself. Throws ENOENT, ENOTDIR, ELOOP (a link) when it is not there
 * (any more), EACCES.
 */
export function holdDirectory(root: WorkDir, dir: RelPath): HeldDirectory {
  if (dir === '') return { at: heldPath(root), close: () => undefined };
  // With a step behind it a link is ELOOP, and not what O_DIRECTORY says of it.
  const fd = openUnder(root, `${dir}/.`, O_PATH | fs.constants.O_DIRECTORY);
  return { at: `/proc/self/fd/${fd}`, close: () => fs.closeSync(fd) };
}

/** What `act` makes of an absolute path to `path`, whose last component may be a link; throws as above. */
export function beneath<T>(root: WorkDir, path: RelPath, act: (full: string | Buffer) => T): T {
  const cut = path.lastIndexOf('/');
  const parent = holdDirectory(root, path.slice(0, Math.max(0, cut)));
  try {
    return act(encodePath(`${parent.at}/${path.slice(cut + 1)}`));
  } finally {
    parent.close();
  }
}

/** lstat(2); undefined when there is nothing of that name. Throws ENOTDIR or ELOOP when no directory leads there. */
export function lstatBeneath(root: WorkDir, path: RelPath): fs.BigIntStats | undefined {
  try {
    return beneath(root, path, (full) => fs.lstatSync(full, { bigint: true }));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
