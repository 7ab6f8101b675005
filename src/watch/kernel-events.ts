// From the kernel's events to closed files: keeps the watches in step with the tree, and tells what was closed, renamed or
// linked into place. All of it is synchronous and runs no foreign code, so that the order holds: who is told takes note.
import type { Evidence } from '../model/file/evidence.ts';
import { type ClosedHow, type Interest, isPlaced } from '../model/file/file-state.ts';
import { joinPath, type RelPath } from '../model/path.ts';
import { holdDirectory, type WorkDir } from '../native/beneath.ts';
import { writerOf } from '../native/files.ts';
import { parseEvents } from './event-bytes.ts';
import { DIRECTORY_MASK, IN, type Reader } from './inotify.ts';
import { hasVanished, listTree, lookAt, type FoundFile, type Walk } from './scan.ts';
import { below, type WatchedDir, WatchTree } from './tree.ts';

export interface KernelEventsOptions {
  readonly root: WorkDir;
  readonly interest: Interest;
  readonly reader: Pick<Reader, 'watch' | 'unwatch'>;
  /** A declared file was closed. Without `evidence` it is not known yet who did it. */
  readonly onClosed: (path: RelPath, how: ClosedHow, evidence?: Evidence) => void;
  /** The kernel dropped events, or the watches may not fit the tree any more: walk it all again. */
  readonly onLost: (why: 'overflow' | 'displaced') => void;
  /** This directory has no watch, or could not be read: events of it will be missed. */
  readonly onUncovered: (dir: RelPath, error: unknown) => void;
}

/** `#<inode>`: what the kernel calls a file that was opened with O_TMPFILE, even once it has a name. */
const TMPFILE_NAME = /^#\d+$/;

/** A dying process renames and links nothing: what was put into its place was put there on purpose. */
function evidenceFrom(how: ClosedHow): Evidence | undefined {
  return isPlaced(how) ? 'clean' : undefined;
}

export class KernelEvents {
  readonly #options: KernelEventsOptions;
  readonly #tree = new WatchTree();
  readonly #newNames: NewNames;
  /** Directories of which only the MOVED_FROM was read, by its cookie. */
  readonly #movedAway = new Map<number, WatchedDir>();
  /** Adds the watch of each directory before it is read: what is made in between is reported, not missed. */
  readonly walk: Walk;

  constructor(options: KernelEventsOptions) {
    this.#options = options;
    this.#newNames = new NewNames(options.root);
    this.walk = {
      root: options.root,
      interest: options.interest,
      enter: (dir, at) => this.#enter(dir, at),
      onUnreadable: options.onUncovered,
    };
  }

  /** True while something waits for {@link resolvePending}. */
  get hasPending(): boolean {
    return this.#newNames.size > 0 || this.#movedAway.size > 0 || this.#tree.displaced.size > 0;
  }

  /** Declared files that appeared and that nobody has closed yet. */
  get unclosed(): readonly RelPath[] {
    return this.#newNames.unclosed();
  }

  /** Watches the work directory itself; throws when even that is refused. */
  watchRoot(): void {
    this.#tree.place(this.#add(holdDirectory(this.#options.root, '').at), '');
  }

  readonly accept = (bytes: Buffer, length: number): void => {
    parseEvents(bytes, length, this.#onEvent);
  };

  /**
   * Decides about what no event has explained: new names without a close, directories that were moved away for good.
   * `readAll` must take what the kernel has queued: the close that explains a name may wait there.
   */
  resolvePending(readAll: () => void): void {
    const { links, finished } = this.#newNames.review((path) => this.#options.interest.wants(path));
    for (const path of links) this.#options.onClosed(path, 'link', 'clean');
    if (finished.length > 0) readAll();
    for (const path of finished) if (this.#newNames.take(path)) this.#options.onClosed(path, 'link', 'clean');
    const gone = [...this.#movedAway.values()];
    this.#movedAway.clear();
    for (const dir of gone) this.#unwatch(dir, (at) => at.path === undefined);
    if (this.#tree.displaced.size === 0) return;
    this.#tree.displaced.clear();
    this.#options.onLost('displaced');
  }

  beginPass(): void {
    this.#tree.beginPass();
  }

  /** After a whole walk: removes the watches of directories that are not in the tree any more. */
  endPass(): void {
    for (const watch of this.#tree.stale()) this.#remove(watch);
  }

  readonly #onEvent = (watch: number, mask: number, cookie: number, name: string): void => {
    if ((mask & IN.queueOverflow) !== 0) {
      this.#newNames.lost();
      return this.#options.onLost('overflow');
    }
    if ((mask & IN.ignored) !== 0) return this.#tree.forget(watch);
    const dir = this.#tree.get(watch)?.path;
    if (dir === undefined || name === '') return;
    const path = joinPath(dir, name);
    if ((mask & IN.isDir) !== 0) this.#onDirectory(path, mask, cookie);
    else if ((mask & IN.create) !== 0) this.#newNames.add(path);
    else this.#onFile(dir, name, path, mask);
  };

  #onFile(dir: RelPath, name: string, path: RelPath, mask: number): void {
    this.#newNames.drop(path);
    if ((mask & IN.movedTo) !== 0) this.#tell(path, 'rename');
    else if ((mask & IN.closeWrite) === 0) return;
    else if (TMPFILE_NAME.test(name) && lookAt(this.walk.root, path) === undefined) {
      this.#onTmpfileClosed(dir, name.slice(1));
    } else this.#tell(path, 'close');
  }

  #onTmpfileClosed(dir: RelPath, inode: string): void {
    const path = this.#newNames.ofInode(dir, inode) ?? this.#searchInode(dir, inode);
    if (path === undefined) return;
    this.#newNames.drop(path);
    this.#tell(path, 'close');
  }

  #searchInode(dir: RelPath, inode: string): RelPath | undefined {
    const [files = []] = listTree({ ...this.walk, enter: undefined }, dir);
    return files.find((path) => lookAt(this.walk.root, path)?.facts.ino === inode);
  }

  #onDirectory(path: RelPath, mask: number, cookie: number): void {
    if ((mask & IN.create) !== 0) this.#addTree(path, 'scan');
    else if ((mask & IN.movedFrom) !== 0) {
      const dir = this.#tree.take(path);
      if (dir !== undefined) this.#movedAway.set(cookie, dir);
    } else if ((mask & IN.movedTo) !== 0) {
      const dir = this.#movedAway.get(cookie);
      this.#movedAway.delete(cookie);
      if (dir !== undefined) this.#moveTo(dir, path);
      this.#addTree(path, 'dir-rename');
    }
  }

  /** The watches come along; those that nobody is interested in at the new place are given back. */
  #moveTo(dir: WatchedDir, path: RelPath): void {
    this.#tree.put(dir, path);
    this.#unwatch(dir, (at) => !this.#options.interest.canHold(at.path ?? ''));
  }

  #addTree(path: RelPath, how: ClosedHow): void {
    for (const files of listTree(this.walk, path))
      for (const file of files) this.#options.onClosed(file, how, evidenceFrom(how));
  }

  #tell(path: RelPath, how: ClosedHow): void {
    if (this.#options.interest.wants(path)) this.#options.onClosed(path, how, evidenceFrom(how));
  }

  #enter(dir: RelPath, at: string): boolean {
    try {
      this.#tree.place(this.#add(at), dir);
      return true;
    } catch (error) {
      if (hasVanished(error)) return false;
      this.#options.onUncovered(dir, error);
      return true;
    }
  }

  /** With a step behind it: IN_DONT_FOLLOW is also for the links of /proc/self/fd (inotify(7)). */
  #add(at: string): number {
    return this.#options.reader.watch(`${at}/.`, DIRECTORY_MASK);
  }

  #unwatch(from: WatchedDir, which: (dir: WatchedDir) => boolean): void {
    for (const dir of below(from)) if (dir.watch !== undefined && which(dir)) this.#remove(dir.watch);
  }

  #remove(watch: number): void {
    this.#options.reader.unwatch(watch);
    this.#tree.forget(watch);
  }
}

/** Files linked in and open at the same time; of more, the directory is searched. */
const REMEMBERED_INODES = 4096;

/**
 * Names that appeared and whose first close has not come. An ordinary new file is closed soon, and that event is the one
 * that counts; a link, and an O_TMPFILE file linked in, may have no other event than this.
 */
class NewNames {
  readonly #root: WorkDir;
  readonly #waiting = new Set<RelPath>();
  readonly #open = new Set<RelPath>();
  readonly #inodes = new Map<string, RelPath>();
  /** The close of a name that waits may have been dropped: then the walk tells it, as what may be a death's. */
  #isLost = false;

  constructor(root: WorkDir) {
    this.#root = root;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** IN_CREATE of anything but a directory. */
  add(path: RelPath): void {
    this.#waiting.add(path);
  }

  /** The kernel dropped events. */
  lost(): void {
    this.#isLost = this.#waiting.size > 0;
  }

  /** Closed, renamed or removed: nothing is left to find out about it. */
  drop(path: RelPath): void {
    this.#waiting.delete(path);
    this.#open.delete(path);
  }

  /**
   * Looks at what waits. `links` get no other event: tell them. `finished` have bytes and no writer: their close is in
   * the kernel's queue already, or will never come (O_TMPFILE). They go on waiting.
   */
  review(wants: (path: RelPath) => boolean): {
    readonly links: readonly RelPath[];
    readonly finished: readonly RelPath[];
  } {
    const links: RelPath[] = [];
    const finished: RelPath[] = [];
    const names = [...this.#waiting].filter(wants);
    const isLost = this.#isLost;
    this.#waiting.clear();
    this.#isLost = false;
    for (const path of names) {
      const file = lookAt(this.#root, path);
      if (file === undefined) continue;
      if (file.link || file.facts.links > 1) links.push(path);
      else if (file.facts.size > 0 && !isBeingWritten(this.#root, path)) finished.push(path);
      else {
        this.#remember(file);
        this.#open.add(path);
      }
    }
    if (isLost) return { links: [], finished: [] };
    for (const path of finished) this.#waiting.add(path);
    return { links, finished };
  }

  /** True, once, for a name that still waits. */
  take(path: RelPath): boolean {
    return this.#waiting.delete(path) && !this.#isLost;
  }

  /** Names that somebody holds open since they were made: a file that was closed, renamed or is gone is none. */
  unclosed(): readonly RelPath[] {
    for (const path of this.#open) if (lookAt(this.#root, path) === undefined) this.#open.delete(path);
    return [...this.#open];
  }

  /** The name below `dir` of an O_TMPFILE file that was linked in while open. */
  ofInode(dir: RelPath, inode: string): RelPath | undefined {
    const known = this.#inodes.get(inode);
    if (known !== undefined && this.#hasInode(known, inode)) return known;
    const prefix = dir === '' ? '' : `${dir}/`;
    for (const path of this.#waiting) if (path.startsWith(prefix) && this.#hasInode(path, inode)) return path;
    return undefined;
  }

  #remember(file: FoundFile): void {
    this.#inodes.set(file.facts.ino, file.path);
    const [oldest] = this.#inodes.keys();
    if (this.#inodes.size > REMEMBERED_INODES && oldest !== undefined) this.#inodes.delete(oldest);
  }

  #hasInode(path: RelPath, inode: string): boolean {
    return lookAt(this.#root, path)?.facts.ino === inode;
  }
}

/** Without a lease (another user's file, some file systems) nobody can tell: then nobody counts as its writer. */
function isBeingWritten(root: WorkDir, path: RelPath): boolean {
  try {
    return writerOf(root, path) === 'writer';
  } catch (error) {
    return hasVanished(error);
  }
}
