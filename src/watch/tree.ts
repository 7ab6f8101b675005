// Maps watches to directories. A watch follows its inode: a rename changes the path of a directory and of everything
// below it, and the watch numbers stay. Paths are put together from names when they are needed, so a rename costs the
// same however much is below. This is bookkeeping only: no system call is made here.
import { joinPath, type RelPath } from '../model/path.ts';

export interface WatchedDir {
  /** undefined: the directory could not be watched; it is here only because it has children. */
  readonly watch: number | undefined;
  /** undefined for the root, and while loose: the directory was moved away, and no event has said where to. */
  parent: WatchedDir | undefined;
  name: string;
  readonly children: Map<string, WatchedDir>;
  /** The number of the last walk over the whole tree that found it. */
  pass: number;
}

export class WatchTree {
  readonly #byWatch = new Map<number, WatchedDir>();
  #root: WatchedDir = newDir(undefined);
  #pass = 0;
  /** Directories whose path another directory took over, though no event has said that they are gone. */
  readonly displaced = new Set<WatchedDir>();

  /** Where the directory with this watch is; undefined if nobody knows. */
  pathOf(watch: number): RelPath | undefined {
    const dir = this.#byWatch.get(watch);
    return dir === undefined ? undefined : this.#pathOf(dir);
  }

  /** False once the directory, or one above it, was taken out of the tree. */
  holds(dir: WatchedDir): boolean {
    return topOf(dir) === this.#root;
  }

  get size(): number {
    return this.#byWatch.size;
  }

  /**
   * Call it before a walk over the whole tree. Directories that the walk does not find are {@link stale} afterwards.
   */
  beginPass(): void {
    this.#pass += 1;
  }

  /** The kernel said that the directory at `path` has this watch: corrects what the tree said before. */
  place(watch: number, path: RelPath): void {
    let dir = this.#byWatch.get(watch);
    if (dir === undefined) {
      dir = newDir(watch);
      this.#byWatch.set(watch, dir);
    }
    dir.pass = this.#pass;
    if (this.#pathOf(dir) !== path) this.put(dir, path);
  }

  /** Takes the directory and all below it out of the tree. Their events are ignored until it is put somewhere. */
  take(path: RelPath): WatchedDir | undefined {
    const dir = this.#find(path);
    if (dir !== undefined) detach(dir);
    return dir;
  }

  put(dir: WatchedDir, path: RelPath): void {
    if (path === '') {
      detach(dir);
      this.#root = dir;
      return;
    }
    const cut = path.lastIndexOf('/');
    const parent = this.#step(cut < 0 ? '' : path.slice(0, cut));
    // The directory is mounted a second time, below itself: it keeps its path.
    if (isAbove(dir, parent)) return;
    detach(dir);
    const name = path.slice(cut + 1);
    const other = parent.children.get(name);
    if (other !== undefined) this.#displace(other, dir);
    dir.parent = parent;
    dir.name = name;
    parent.children.set(name, dir);
    this.displaced.delete(dir);
  }

  /** IN_IGNORED: the kernel has removed the watch. */
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

  #pathOf(dir: WatchedDir): RelPath | undefined {
    if (dir === this.#root) return '';
    const above = dir.parent === undefined ? undefined : this.#pathOf(dir.parent);
    return above === undefined ? undefined : joinPath(above, dir.name);
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
        next = newDir(undefined);
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

function newDir(watch: number | undefined): WatchedDir {
  return { watch, parent: undefined, name: '', children: new Map(), pass: 0 };
}

function topOf(dir: WatchedDir): WatchedDir {
  let at = dir;
  while (at.parent !== undefined) at = at.parent;
  return at;
}

function isAbove(dir: WatchedDir, lower: WatchedDir): boolean {
  for (let at: WatchedDir | undefined = lower; at !== undefined; at = at.parent) if (at === dir) return true;
  return false;
}

function detach(dir: WatchedDir): void {
  if (dir.parent?.children.get(dir.name) === dir) dir.parent.children.delete(dir.name);
  dir.parent = undefined;
}
