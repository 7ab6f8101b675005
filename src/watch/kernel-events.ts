// From the kernel's events to closed files: keeps the watches in step with the tree, and reports which files were
// closed, renamed or linked into place. Everything here is synchronous and runs no foreign code, which keeps the order:
// the callbacks only take notes.
import type { Evidence } from '../model/file/evidence.ts';
import { type ClosedEvent, type ClosedHow, type Interest, isPlaced } from '../model/file/file-state.ts';
import { joinPath, type RelPath } from '../model/path.ts';
import { holdDirectory, type WorkDir } from '../native/beneath.ts';
import { threadCpuMs } from '../native/clock.ts';
import { writerOf } from '../native/files.ts';
import { parseEvents } from './event-bytes.ts';
import { DIRECTORY_MASK, IN, type Reader } from './inotify.ts';
import type { LinkedDirectories } from './linked-directories.ts';
import {
  hasVanished,
  listDirectory,
  listTree,
  lookAt,
  lookClosely,
  type FoundFile,
  type Walk,
} from './scan.ts';
import { below, type WatchedDir, WatchTree } from './tree.ts';

/** What is known of a close when it is reported. Without `evidence`, nobody knows yet which process made it. */
export type Reported = Partial<Pick<ClosedEvent, 'evidence' | 'since'>>;

export interface KernelEventsOptions {
  readonly root: WorkDir;
  readonly interest: Interest;
  readonly reader: Pick<Reader, 'watch' | 'unwatch'>;
  readonly links: LinkedDirectories;
  /** A declared file was closed. */
  readonly onClosed: (path: RelPath, how: ClosedHow, known?: Reported) => void;
  /** How many closes were reported so far. */
  readonly reported: () => number;
  /** The kernel dropped events, or the watches may not fit the tree any more: walk the whole tree again. */
  readonly onLost: (why: 'overflow' | 'displaced') => void;
  /** This directory has no watch, or could not be read: events of it will be missed. */
  readonly onUncovered: (dir: RelPath, error: unknown) => void;
}

/** `#<inode>`: what the kernel calls a file that was opened with O_TMPFILE, even once it has a name. */
const TMPFILE_NAME = /^#\d+$/;

/**
 * How much CPU time work that grows with a tree may take at once, ms, and which share of the time after that. A walk in
 * turns makes up for what is left out, so one task cannot stop those that share the sidecar.
 */
const MOST_TREE_MS = 1000;
const TREE_SHARE = 0.25;

/** A dying process neither renames nor links: whoever put the file into place did so on purpose. */
function evidenceFrom(how: ClosedHow): Evidence | undefined {
  return isPlaced(how) ? 'clean' : undefined;
}

export class KernelEvents {
  readonly #options: KernelEventsOptions;
  readonly #tree = new WatchTree();
  readonly #newNames: NewNames;
  /** By cookie, the directories that were moved away (MOVED_FROM was read) and whose MOVED_TO has not been read. */
  readonly #movedAway = new Map<number, WatchedDir>();
  readonly #allowance = new Allowance();
  /** Adds the watch of each directory before it is read, so files that are made in between are reported, not missed. */
  readonly walk: Walk;

  constructor(options: KernelEventsOptions) {
    this.#options = options;
    this.#newNames = new NewNames(options.root);
    this.walk = {
      root: options.root,
      interest: options.interest,
      enter: (dir, at) => this.#enter(dir, at),
      onLink: options.links.note,
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

  /** Watches the work directory itself; throws if the kernel refuses that watch. */
  watchRoot(): void {
    this.#tree.place(this.#add(holdDirectory(this.#options.root, '').at), '');
  }

  readonly accept = (bytes: Buffer, length: number): void => {
    parseEvents(bytes, length, this.#onEvent);
  };

  /**
   * Settles what no event has explained: new names without a close, directories that were moved out of the tree.
   * `readAll` must read everything that the kernel has queued: the close that explains a name may be in the queue.
   */
  resolvePending(readAll: () => void): void {
    this.#newNames.each((path) => this.#options.links.appeared(path));
    const { links, finished } = this.#newNames.review((path) => this.#options.interest.wants(path));
    for (const path of links) this.#options.onClosed(path, 'link', { evidence: 'clean' });
    if (finished.length > 0) readAll();
    for (const path of finished)
      if (this.#newNames.take(path)) this.#options.onClosed(path, 'link', { evidence: 'clean' });
    const gone = [...this.#movedAway.values()];
    this.#movedAway.clear();
    for (const dir of gone) if (!this.#tree.holds(dir)) this.#inTime(this.#unwatched(dir));
    if (this.#tree.displaced.size === 0) return;
    this.#tree.displaced.clear();
    this.#options.onLost('displaced');
  }

  beginPass(): void {
    this.#tree.beginPass();
  }

  /** After a whole walk: removes the watches of directories that are no longer in the tree. */
  endPass(): void {
    for (const watch of this.#tree.stale()) this.#remove(watch);
  }

  readonly #onEvent = (watch: number, mask: number, cookie: number, name: string): void => {
    if ((mask & IN.queueOverflow) !== 0) {
      this.#newNames.lost();
      return this.#options.onLost('overflow');
    }
    if ((mask & IN.ignored) !== 0) return this.#tree.forget(watch);
    const dir = this.#tree.pathOf(watch);
    if (dir === undefined || name === '') return;
    const path = joinPath(dir, name);
    if ((mask & IN.isDir) !== 0) this.#onDirectory(path, mask, cookie);
    else if ((mask & IN.create) !== 0) this.#newNames.add(path, this.#options.reported());
    else this.#onFile(dir, name, path, mask);
  };

  #onFile(dir: RelPath, name: string, path: RelPath, mask: number): void {
    const since = this.#newNames.drop(path);
    if ((mask & IN.movedTo) !== 0) this.#options.links.appeared(path);
    if ((mask & IN.movedTo) !== 0) this.#tell(path, 'rename');
    else if ((mask & IN.closeWrite) === 0) return;
    else if (TMPFILE_NAME.test(name) && lookAt(this.walk.root, path) === undefined) {
      this.#onTmpfileClosed(dir, name.slice(1));
    } else this.#tell(path, 'close', since);
  }

  #onTmpfileClosed(dir: RelPath, inode: string): void {
    const path = this.#newNames.ofInode(inode) ?? this.#searchInode(dir, inode);
    if (path === undefined) return;
    this.#newNames.drop(path);
    this.#tell(path, 'close');
  }

  /** Looks at the newest names of the directory first. */
  #searchInode(dir: RelPath, inode: string): RelPath | undefined {
    const { root } = this.walk;
    const newest = this.#newNames.waitingIn(dir);
    const all = listDirectory({ ...this.walk, enter: undefined }, dir);
    let found: RelPath | undefined;
    function* looks(): Generator<void> {
      for (const pieces of [newest, all])
        for (const paths of pieces) {
          found = paths.find((path) => lookAt(root, path)?.facts.ino === inode);
          if (found !== undefined) return;
          yield;
        }
    }
    this.#inTime(looks());
    return found;
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

  /** The watches move along. */
  #moveTo(dir: WatchedDir, path: RelPath): void {
    this.#tree.put(dir, path);
    if (!this.#options.interest.canHold(path)) this.#inTime(this.#unwatched(dir));
  }

  #addTree(path: RelPath, how: ClosedHow): void {
    this.#inTime(this.#toldBelow(path, how));
  }

  *#toldBelow(path: RelPath, how: ClosedHow): Generator<void> {
    for (const files of listTree(this.walk, path)) {
      for (const file of files) this.#options.onClosed(file, how, { evidence: evidenceFrom(how) });
      yield;
    }
  }

  *#unwatched(from: WatchedDir): Generator<void> {
    for (const { watch } of below(from)) {
      if (watch !== undefined) this.#remove(watch);
      yield;
    }
  }

  #inTime(steps: Iterable<void>): void {
    if (!this.#allowance.spend(steps)) this.#options.onLost('displaced');
  }

  #tell(path: RelPath, how: ClosedHow, since?: number): void {
    if (!this.#options.interest.wants(path)) return;
    this.#options.onClosed(path, how, { evidence: evidenceFrom(how), since });
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

  /** With `/.` appended: IN_DONT_FOLLOW applies to the links of /proc/self/fd too (inotify(7)). */
  #add(at: string): number {
    return this.#options.reader.watch(`${at}/.`, DIRECTORY_MASK);
  }

  #remove(watch: number): void {
    this.#options.reader.unwatch(watch);
    this.#tree.forget(watch);
  }
}

/** CPU time that work may take: so much at once, and a share of the time that goes by. */
class Allowance {
  /** Below 0 after a step that took longer. */
  #leftMs = MOST_TREE_MS;
  #asOfMs = performance.now();

  /** Takes the steps one by one while there is time. False if some may be left. */
  spend(steps: Iterable<void>): boolean {
    const nowMs = performance.now();
    this.#leftMs = Math.min(MOST_TREE_MS, this.#leftMs + (nowMs - this.#asOfMs) * TREE_SHARE);
    this.#asOfMs = nowMs;
    if (this.#leftMs <= 0) return false;
    const endMs = threadCpuMs() + this.#leftMs;
    let isOver = false;
    for (const _ of steps) {
      isOver = threadCpuMs() > endMs;
      if (isOver) break;
    }
    this.#leftMs = endMs - threadCpuMs();
    return !isOver;
  }
}

/** The limit of files that are linked in and open at the same time. Beyond it, the directory is searched. */
const REMEMBERED_INODES = 4096;

/**
 * Names that appeared and were not closed yet. An ordinary new file is closed soon, and that event counts. A link, or
 * an O_TMPFILE file that was linked in, may get no other event than this one.
 */
class NewNames {
  readonly #root: WorkDir;
  /** With the number of closes that had been reported when the name appeared. */
  readonly #waiting = new Map<RelPath, number>();
  readonly #open = new Map<RelPath, number>();
  readonly #inodes = new Map<string, RelPath>();
  /**
   * The kernel may have dropped the close of a waiting name. Then the walk reports it, as possibly closed for a dying
   * process.
   */
  #isLost = false;

  constructor(root: WorkDir) {
    this.#root = root;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** IN_CREATE of anything but a directory. `reported`: the number of closes before it. */
  add(path: RelPath, reported: number): void {
    this.#waiting.set(path, reported);
  }

  each(act: (path: RelPath) => void): void {
    for (const path of this.#waiting.keys()) act(path);
  }

  /** The kernel dropped events. */
  lost(): void {
    this.#isLost = this.#waiting.size > 0;
  }

  /**
   * The file was closed, renamed or removed: nothing is left to find out about it. Returns how many closes had been
   * reported when the name appeared; undefined if it is not new.
   */
  drop(path: RelPath): number | undefined {
    const reported = this.#waiting.get(path) ?? this.#open.get(path);
    this.#waiting.delete(path);
    this.#open.delete(path);
    return reported;
  }

  /**
   * Looks at the waiting names. `links` get no other event: report them. `finished` have bytes and no writer: their
   * close is in the kernel's queue already, or will never come (O_TMPFILE). They keep waiting.
   */
  review(wants: (path: RelPath) => boolean): {
    readonly links: readonly RelPath[];
    readonly finished: readonly RelPath[];
  } {
    const links: RelPath[] = [];
    const finished: [RelPath, number][] = [];
    const names = [...this.#waiting].filter(([path]) => wants(path));
    const isLost = this.#isLost;
    this.#waiting.clear();
    this.#isLost = false;
    for (const [path, reported] of names) {
      const file = lookClosely(this.#root, path);
      if (file === 'gone') continue;
      if ('error' in file) this.#open.set(path, reported);
      else if (file.link || file.facts.links > 1) links.push(path);
      else if (file.facts.size > 0 && !isBeingWritten(this.#root, path)) finished.push([path, reported]);
      else {
        this.#remember(file);
        this.#open.set(path, reported);
      }
    }
    if (isLost) return { links: [], finished: [] };
    for (const [path, reported] of finished) this.#waiting.set(path, reported);
    return { links, finished: finished.map(([path]) => path) };
  }

  /** True if the name was waiting; it waits no longer. */
  take(path: RelPath): boolean {
    return this.#waiting.delete(path) && !this.#isLost;
  }

  /** Files that have been open since they were created: not closed, not renamed, not gone. */
  unclosed(): readonly RelPath[] {
    for (const path of this.#open.keys())
      if (lookClosely(this.#root, path) === 'gone') this.#open.delete(path);
    return [...this.#open.keys()];
  }

  /** The name of an O_TMPFILE file that was linked in while it was open, if it still has it. */
  ofInode(inode: string): RelPath | undefined {
    const known = this.#inodes.get(inode);
    return known !== undefined && lookAt(this.#root, known)?.facts.ino === inode ? known : undefined;
  }

  /** The waiting names of a directory and those below it, one by one. */
  *waitingIn(dir: RelPath): Generator<readonly RelPath[]> {
    const prefix = dir === '' ? '' : `${dir}/`;
    for (const path of this.#waiting.keys()) if (path.startsWith(prefix)) yield [path];
  }

  #remember(file: FoundFile): void {
    this.#inodes.set(file.facts.ino, file.path);
    const [oldest] = this.#inodes.keys();
    if (this.#inodes.size > REMEMBERED_INODES && oldest !== undefined) this.#inodes.delete(oldest);
  }
}

/**
 * Without a lease (another user's file, some file systems) nobody can know: then the file counts as having no writer.
 */
function isBeingWritten(root: WorkDir, path: RelPath): boolean {
  try {
    return writerOf(root, path) === 'writer';
  } catch (error) {
    return hasVanished(error);
  }
}
