// Which watch stands for which directory. A watch follows its inode, so a rename changes the path of the
// directory and of all below it; the numbers stay. Bookkeeping only: no system call is made here.
import { joinPath, type RelPath } from '../model/path.ts';

export interface WatchedDir {
  /** undefined: it could not be watched, and is only a step on the way to others. */
  readonly watch: number | undefined;
  /** undefined while loose: moved away, and nothing has said yet where to. */
  path: RelPath | undefined;
  parent: WatchedDir | undefined;
  name: string;
  readonly children: Map<string, WatchedDir>;
  /** The last walk over the whole tree that found it. */
  pass: number;
}

export class WatchTree {
  readonly #byWatch = new Map<number, WatchedDir>();
  #root: WatchedDir = newDir(undefined, '');
  #pass = 0;
  /** Directories whose path another one took although no event has said that they are gone. */
  readonly displaced = new Set<WatchedDir>();

  get(watch: number): WatchedDir | undefined {
    return this.#byWatch.get(watch);
  }

  get size(): number {
    return this.#byWatch.size;
  }

  /** Before a walk over the whole tree; what the walk does not find is {@link stale} then. */
  beginPass(): void {
    this.#pass += 1;
  }

  /** The kernel said that the directory at `path` has this watch: whatever was believed before is corrected. */
  place(watch: number, path: RelPath): void {
    let dir = this.#byWatch.get(watch);
    if (dir === undefined) {
      dir = newDir(watch, undefined);
      this.#byWatch.set(watch, dir);
    }
    dir.pass = this.#pass;
    if (dir.path !== path) this.put(dir, path);
  }

  /** Takes the directory and all below it off the tree; its events mean nothing until it is put somewhere. */
  take(path: RelPath): WatchedDir | undefined {
    const dir = this.#find(path);
    if (dir !== undefined) detach(dir);
    return dir;
  }

  put(dir: WatchedDir, path: RelPath): void {
    if (path === '') {
      detach(dir);
      this.#root = dir;
      setPath(dir, '');
      return;
    }
    const cut = path.lastIndexOf('/');
    const parent = this.#step(cut < 0 ? '' : path.slice(0, cut));
    // A directory that is mounted once more below itself: it keeps the path that it has.
    if (isAbove(dir, parent)) return;
    detach(dir);
    const name = path.slice(cut + 1);
    const other = parent.children.get(name);
    if (other !== undefined) this.#displace(other, dir);
    dir.parent = parent;
    dir.name = name;
    parent.children.set(name, dir);
    this.displaced.delete(dir);
    setPath(dir, path);
  }

  /** IN_IGNORED: the watch is no more. */
  forget(watch: number): void {
    const dir = this.#byWatch.get(watch);
    if (dir === undefined) return;
    this.#byWatch.delete(watch);
    this.displaced.delete(dir);
    detach(dir);
  }

  /** The watches that the last pass did not find. */
  stale(): number[] {
    return [...this.#byWatch].filter(([, dir]) => dir.pass < this.#pass).map(([watch]) => watch);
  }

  #displace(other: WatchedDir, dir: WatchedDir): void {
    if (other.watch === undefined) {
      for (const [name, child] of other.children) {
        child.parent = dir;
        dir.children.set(name, child);
      }
      return;
    }
    detach(other);
    this.displaced.add(other);
  }

  #find(path: RelPath): WatchedDir | undefined {
    if (path === '') return this.#root;
    let dir: WatchedDir | undefined = this.#root;
    for (const name of path.split('/')) dir = dir?.children.get(name);
    return dir;
  }

  #step(path: RelPath): WatchedDir {
    let dir = this.#root;
    if (path === '') return dir;
    for (const name of path.split('/')) {
      let next = dir.children.get(name);
      if (next === undefined) {
        next = newDir(undefined, joinPath(dir.path ?? '', name));
        next.parent = dir;
        next.name = name;
        dir.children.set(name, next);
      }
      dir = next;
    }
    return dir;
  }
}

/** The directory and all below it, parents first. */
export function below(dir: WatchedDir): readonly WatchedDir[] {
  return [dir, ...[...dir.children.values()].flatMap(below)];
}

function newDir(watch: number | undefined, path: RelPath | undefined): WatchedDir {
  return { watch, path, parent: undefined, name: '', children: new Map(), pass: 0 };
}

function isAbove(dir: WatchedDir, lower: WatchedDir): boolean {
  for (let at: WatchedDir | undefined = lower; at !== undefined; at = at.parent) if (at === dir) return true;
  return false;
}

function detach(dir: WatchedDir): void {
  if (dir.parent?.children.get(dir.name) === dir) dir.parent.children.delete(dir.name);
  dir.parent = undefined;
  if (dir.path !== undefined) setPath(dir, undefined);
}

function setPath(dir: WatchedDir, path: RelPath | undefined): void {
  dir.path = path;
  for (const child of dir.children.values()) {
    setPath(child, path === undefined ? undefined : joinPath(path, child.name));
  }
}
