// The file systems of all machines in one tree: names, inodes, and the events of each change for those that watch.
// Every call is atomic. What a process has open is in machine/kernel.ts.
import { failure } from './failure.ts';
import { type Dentry, Inode, type Kind } from './inode.ts';
import { IN, notify } from './inotify.ts';

export interface Found {
  readonly parent: Inode;
  readonly name: string;
  readonly dentry: Dentry | undefined;
}

export interface WalkOptions {
  /** Follows a link in the last component. */
  readonly follow: boolean;
  /** openat2(2): RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS. */
  readonly isBeneath?: boolean;
}

const MOST_LINKS = 40;

export class FileSystem {
  readonly root: Inode;
  /** Called for each file that gets or loses a name. */
  onNamed: (dentry: Dentry) => void = () => undefined;
  onUnnamed: (dentry: Dentry) => void = () => undefined;
  readonly #nowNs: () => bigint;
  #lastIno = 1;
  #lastCookie = 0;

  /** `nowNs`: the time of day, as coarse as the kernel's (ktime_get_coarse_real_ts64). */
  constructor(nowNs: () => bigint) {
    this.#nowNs = nowNs;
    this.root = new Inode(1, 'directory', 0o755, nowNs());
  }

  newInode(kind: Kind, mode: number): Inode {
    return new Inode((this.#lastIno += 1), kind, mode, this.#nowNs());
  }

  /** Where `path` leads from `start`; its last component may be missing. */
  walk(start: Inode, path: string, options: WalkOptions, links = 0): Found {
    let at = path.startsWith('/') && options.isBeneath !== true ? this.root : start;
    const { parts, endsInDirectory } = partsOf(path);
    if (parts.length === 0) return { parent: at, name: '.', dentry: selfOf(at) };
    for (let index = 0; ; index += 1) {
      const name = parts[index] as string;
      const isLast = index === parts.length - 1;
      if (at.kind !== 'directory') throw failure('ENOTDIR', 'open', path);
      if (name === '..') {
        if (options.isBeneath === true) throw failure('EXDEV', 'openat2', path);
        at = at.self?.parent ?? this.root;
        if (isLast) return { parent: at, name: '.', dentry: selfOf(at) };
        continue;
      }
      const dentry = at.entries.get(name);
      if (isLast && !(dentry?.inode.kind === 'link' && (options.follow || endsInDirectory)))
        return { parent: at, name, dentry };
      if (dentry === undefined) throw failure('ENOENT', 'open', path);
      if (dentry.inode.kind !== 'link') {
        at = dentry.inode;
        continue;
      }
      if (options.isBeneath === true || links >= MOST_LINKS) throw failure('ELOOP', 'open', path);
      const rest = parts.slice(index + 1).join('/');
      const target = rest === '' ? dentry.inode.target : `${dentry.inode.target}/${rest}`;
      return this.walk(at, target, options, links + 1);
    }
  }

  link(parent: Inode, name: string, inode: Inode): Dentry {
    const dentry: Dentry = { parent, name, inode, isLinked: true };
    parent.entries.set(name, dentry);
    if (inode.kind === 'directory') inode.self = dentry;
    inode.links += 1;
    this.#changed(parent);
    inode.ctimeNs = this.#nowNs();
    notify(parent, IN.CREATE | directoryBit(inode), name);
    this.onNamed(dentry);
    return dentry;
  }

  unlink(dentry: Dentry): void {
    const { parent, inode, name } = dentry;
    if (inode.kind === 'directory' && inode.entries.size > 0) throw failure('ENOTEMPTY', 'rmdir', name);
    this.onUnnamed(dentry);
    parent.entries.delete(name);
    this.#drop(dentry);
    this.#changed(parent);
  }

  rename(from: Dentry, parent: Inode, name: string): void {
    const there = parent.entries.get(name);
    if (there?.inode === from.inode) return; // rename(2): two links of one file
    if (there !== undefined) {
      if (there.inode.kind === 'directory' && there.inode.entries.size > 0)
        throw failure('ENOTEMPTY', 'rename', name);
      if (there.inode.kind === 'directory' && from.inode.kind !== 'directory')
        throw failure('EISDIR', 'rename', name);
      this.#drop(there);
    }
    const before = { parent: from.parent, name: from.name };
    before.parent.entries.delete(before.name);
    from.parent = parent;
    from.name = name;
    parent.entries.set(name, from);
    this.#changed(before.parent);
    this.#changed(parent);
    from.inode.ctimeNs = this.#nowNs();
    this.#lastCookie += 1;
    const bit = directoryBit(from.inode);
    notify(before.parent, IN.MOVED_FROM | bit, before.name, this.#lastCookie);
    notify(parent, IN.MOVED_TO | bit, name, this.#lastCookie);
    this.onNamed(from);
  }

  write(inode: Inode, data: Buffer): void {
    inode.data = data;
    this.#changed(inode);
  }

  touch(inode: Inode): void {
    inode.ctimeNs = this.#nowNs();
  }

  /** utimensat(2) */
  setTime(inode: Inode, mtimeNs: bigint): void {
    inode.mtimeNs = mtimeNs;
    inode.ctimeNs = this.#nowNs();
  }

  #drop(dentry: Dentry): void {
    dentry.isLinked = false;
    const { inode } = dentry;
    inode.links -= 1;
    inode.ctimeNs = this.#nowNs();
    if (inode.kind === 'directory') for (const watch of inode.watches) watch.instance.remove(watch.number);
  }

  #changed(inode: Inode): void {
    inode.mtimeNs = this.#nowNs();
    inode.ctimeNs = inode.mtimeNs;
  }
}

interface Parts {
  readonly parts: readonly string[];
  readonly endsInDirectory: boolean;
}

/** Programs use the same paths again and again. */
const knownParts = new Map<string, Parts>();
const MOST_KNOWN = 10_000;

function partsOf(path: string): Parts {
  const known = knownParts.get(path);
  if (known !== undefined) return known;
  if (knownParts.size >= MOST_KNOWN) knownParts.clear();
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  const made = { parts, endsInDirectory: /(?:^|\/)\.?$/.test(path) };
  knownParts.set(path, made);
  return made;
}

function directoryBit(inode: Inode): number {
  return inode.kind === 'directory' ? IN.ISDIR : 0;
}

/** The root has no name, so it gets one that is in no directory. */
function selfOf(directory: Inode): Dentry {
  return directory.self ?? { parent: directory, name: '', inode: directory, isLinked: true };
}
