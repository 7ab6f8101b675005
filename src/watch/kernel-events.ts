// From the kernel's events to closed files: keeps the watches in step with the tree and puts what was closed
// into the event queue. All of it is synchronous and none of it runs foreign code, so that the order holds.
import type { Evidence } from '../model/file/evidence.ts';
import { type ClosedHow, type Interest, isPlaced } from '../model/file/file-state.ts';
import { joinPath, type RelPath } from '../model/path.ts';
import { holdDirectory, type WorkDir } from '../native/beneath.ts';
import type { EventQueue } from './event-queue.ts';
import { DIRECTORY_MASK, IN, type InotifyCalls, parseEvents } from './inotify.ts';
import { type NewNames, openNewNames } from './new-names.ts';
import { hasVanished, listTree, lookAt, type Walk } from './scan.ts';
import { below, type WatchedDir, WatchTree } from './tree.ts';

export interface KernelEventsOptions {
  readonly root: WorkDir;
  readonly interest: Interest;
  readonly calls: InotifyCalls;
  readonly fd: number;
  readonly eventQueue: EventQueue;
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
    this.#newNames = openNewNames(options.root);
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
    for (const path of links) this.#options.eventQueue.add(path, 'link', 'clean');
    if (finished.length > 0) readAll();
    for (const path of finished)
      if (this.#newNames.take(path)) this.#options.eventQueue.add(path, 'link', 'clean');
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
    if ((mask & IN.queueOverflow) !== 0) return this.#options.onLost('overflow');
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
      for (const file of files) this.#options.eventQueue.add(file, how, evidenceFrom(how));
  }

  #tell(path: RelPath, how: ClosedHow): void {
    if (this.#options.interest.wants(path)) this.#options.eventQueue.add(path, how, evidenceFrom(how));
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
    return this.#options.calls.add(this.#options.fd, `${at}/.`, DIRECTORY_MASK);
  }

  #unwatch(from: WatchedDir, which: (dir: WatchedDir) => boolean): void {
    for (const dir of below(from)) if (dir.watch !== undefined && which(dir)) this.#remove(dir.watch);
  }

  #remove(watch: number): void {
    this.#options.calls.remove(this.#options.fd, watch);
    this.#tree.forget(watch);
  }
}
