// The kernel of the simulated machines: processes, their descriptors, and the system calls on files, each made by a
// process.
import { type Description, isWritable, O } from './description.ts';
import { failure } from './failure.ts';
import { FileSystem, type Found, type WalkOptions } from './file-system.ts';
import { type Dentry, type Inode, pathOf } from './inode.ts';
import { IN, InotifyInstance, notify } from './inotify.ts';
import { readProcFile, readProcLink, readProcNames } from './proc-files.ts';
import { Dead, SimProcess } from './process.ts';

export interface KernelOptions {
  readonly nowMs: () => number;
  readonly nowNs: () => bigint;
  /** The limit of one inotify instance. */
  readonly mostQueuedEvents: number;
  readonly count: (what: string) => void;
  /** Called for a process that never waits for anything. */
  readonly spins: (process: SimProcess) => void;
  /** Called when a SIGCHLD is due. */
  readonly childDied: (parent: SimProcess) => void;
}

export interface ProcessSeed {
  readonly parent: SimProcess | undefined;
  readonly name: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Far more than a scan of all files of a simulated machine takes. */
const MOST_CALLS_AT_ONCE = 20_000;
const SIGNALS: Readonly<Record<string, number>> = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

export class Kernel {
  readonly files: FileSystem;
  readonly processes = new Map<number, SimProcess>();
  /** Below this directory, only the task finds room: the simulated programs cannot handle ENOSPC. */
  full: { readonly below: string; readonly untilMs: number } | undefined;
  readonly #options: KernelOptions;
  #lastPid = 100;
  #lastMs = -1;
  /** System calls since time last advanced. */
  #callsAtOnce = 0;

  constructor(options: KernelOptions) {
    this.#options = options;
    this.files = new FileSystem(options.nowNs);
  }

  // --- processes

  spawn({ parent, name, environment = {} }: ProcessSeed): SimProcess {
    const pid = (this.#lastPid += 1);
    const startMs = this.#options.nowMs();
    const process = new SimProcess({ pid, parent, name, environment, startMs });
    this.processes.set(pid, process);
    return process;
  }

  /** Ends a process: closes its descriptors, gives its children away, and tells its parent. */
  exit(process: SimProcess, status: number): void {
    if (!process.isAlive) return;
    process.isAlive = false;
    process.isExiting = true;
    process.status = status;
    for (const fd of Array.from(process.descriptors.keys()).toSorted((a, b) => a - b))
      this.#release(process, fd);
    process.isZombie = true;
    const adopter = subreaperOf(process);
    for (const child of Array.from(process.children)) {
      process.children.delete(child);
      child.parent = adopter;
      adopter?.children.add(child);
      if (child.isZombie && adopter === undefined) this.reap(child);
    }
    for (const tell of process.onDeath) tell();
    for (const other of this.processes.values())
      for (const description of other.descriptors.values())
        if (description.kind === 'epoll' && description.followed.has(process.pid)) {
          description.isReadable = true;
          description.onReadable?.();
        }
    if (process.parent === undefined) this.reap(process);
    else this.#options.childDied(process.parent);
  }

  kill(process: SimProcess, signal: string): void {
    this.exit(process, SIGNALS[signal] ?? 9);
  }

  /** Sends a signal. A process without a handler is killed. */
  signal(process: SimProcess, signal: string): void {
    if (!process.isAlive) return;
    if (signal === 'SIGKILL') this.kill(process, signal);
    else if (process.onSignal !== undefined) process.onSignal(signal);
    else if (signal === 'SIGTERM' || signal === 'SIGHUP' || signal === 'SIGINT') this.kill(process, signal);
  }

  /** Called when its parent has waited for it. */
  reap(process: SimProcess): void {
    if (process.isAlive) return;
    process.isZombie = false;
    if (process.parent !== undefined) {
      process.parent.childFaults += 50 + process.childFaults;
      process.parent.children.delete(process);
    }
    this.processes.delete(process.pid);
  }

  /** Each system call calls this. Throws if the process is dead, or dies here by a fault of its plan. */
  enter(process: SimProcess): void {
    if (!process.isAlive) throw new Dead();
    const nowMs = this.#options.nowMs();
    if (nowMs !== this.#lastMs) [this.#lastMs, this.#callsAtOnce] = [nowMs, 0];
    if ((this.#callsAtOnce += 1) > MOST_CALLS_AT_ONCE) this.#endSpinning(process);
    process.callsLeft -= 1;
    if (process.callsLeft >= 0) return;
    this.#options.count('death at a system call');
    this.kill(process, 'SIGKILL');
    throw new Dead();
  }

  /** Ends a process that makes calls without letting time advance: nothing else would ever happen. */
  #endSpinning(process: SimProcess): never {
    this.#options.spins(process);
    this.kill(process, 'SIGKILL');
    throw new Dead();
  }

  // --- names

  find(process: SimProcess, path: string, options: WalkOptions, dirfd?: number): Found {
    const magic = path.startsWith('/proc/') ? /^\/proc\/(?:self|(\d+))\/fd\/(\d+)(\/.*)?$/s.exec(path) : null;
    if (magic !== null) {
      const [, pid, fd, rest = ''] = magic;
      const holder = pid === undefined ? process : this.processes.get(Number(pid));
      const { inode, dentry } = this.#fileOf(holder, Number(fd), path);
      if (rest === '' && !options.follow) throw failure('EINVAL', 'open', path);
      if (rest === '') {
        const parent = dentry?.parent ?? this.files.root;
        return { parent, name: dentry?.name ?? '', dentry: dentry ?? orphan(parent, inode) };
      }
      return this.files.walk(inode, rest.slice(1) || '.', options);
    }
    if (dirfd !== undefined) {
      const { inode } = this.#fileOf(process, dirfd, path);
      return this.files.walk(inode, path, options);
    }
    return this.files.walk(this.files.root, path.startsWith('/') ? path : `${process.cwd}/${path}`, options);
  }

  /** Throws ENOENT if nothing is there. */
  inodeAt(process: SimProcess, path: string, options: WalkOptions): Inode {
    const { dentry } = this.find(process, path, options);
    if (dentry === undefined) throw failure('ENOENT', 'stat', path);
    return dentry.inode;
  }

  // --- descriptors

  open(process: SimProcess, path: string, flags: number, options: OpenOptions = {}): number {
    const text = readProcFile(this, process, path);
    if (text !== undefined) {
      return this.#install(process, {
        kind: 'text',
        read: () => this.#procText(process, path),
        references: 0,
      });
    }
    const isBeneath = options.dirfd !== undefined;
    const follow = (flags & O.NOFOLLOW) === 0 && !isBeneath;
    const found = this.find(process, path, { follow, isBeneath }, options.dirfd);
    if (found.dentry === undefined && (flags & O.CREAT) !== 0)
      this.#needRoom(process, found.parent.self, 'open');
    const dentry = found.dentry ?? this.#create(found, path, flags, options.mode ?? 0o666);
    const { inode } = dentry;
    if (found.dentry !== undefined && (flags & O.CREAT) !== 0 && (flags & O.EXCL) !== 0)
      throw failure('EEXIST', 'open', path);
    if (inode.kind === 'link') throw failure('ELOOP', 'open', path);
    if ((flags & O.DIRECTORY) !== 0 && inode.kind !== 'directory') throw failure('ENOTDIR', 'open', path);
    if (inode.kind === 'directory' && isWritable(flags)) throw failure('EISDIR', 'open', path);
    if (inode.kind === 'socket' && (flags & O.PATH) === 0) throw failure('ENXIO', 'open', path);
    return this.openInode(process, dentry, flags);
  }

  openInode(process: SimProcess, dentry: Dentry, flags: number): number {
    const { inode } = dentry;
    if (isWritable(flags)) {
      inode.writers += 1;
      if ((flags & O.TRUNC) !== 0 && inode.data.length > 0) this.files.write(inode, Buffer.alloc(0));
    }
    return this.#install(process, { kind: 'file', inode, dentry, flags, position: 0, references: 0 });
  }

  close(process: SimProcess, fd: number): void {
    if (!process.descriptors.has(fd)) throw failure('EBADF', 'close');
    this.#release(process, fd);
  }

  description(process: SimProcess, fd: number): Description {
    const description = process.descriptors.get(fd);
    if (description === undefined) throw failure('EBADF', 'fstat');
    return description;
  }

  read(process: SimProcess, fd: number, target: Uint8Array, position: number | null): number {
    const description = this.description(process, fd);
    if (description.kind === 'text') {
      const bytes = Buffer.from(description.read(), 'latin1');
      return bytes.copy(target, 0, position ?? 0);
    }
    if (description.kind !== 'file') throw failure('EINVAL', 'read');
    if (description.inode.kind === 'directory') throw failure('EISDIR', 'read');
    const from = position ?? description.position;
    const length = description.inode.data.copy(target, 0, from, from + target.length);
    if (position === null) description.position += length;
    return length;
  }

  write(process: SimProcess, fd: number, bytes: Uint8Array, position: number | null): number {
    const description = this.description(process, fd);
    if (description.kind !== 'file' || !isWritable(description.flags)) throw failure('EBADF', 'write');
    const { inode, flags, dentry } = description;
    if (dentry !== undefined) this.#needRoom(process, dentry, 'write');
    const at = (flags & O.APPEND) !== 0 ? inode.data.length : (position ?? description.position);
    const end = at + bytes.length;
    const { length } = inode.data;
    // Only a gap stays as it is made: it is full of zeros.
    const data = at > length ? Buffer.alloc(end) : Buffer.allocUnsafe(Math.max(end, length));
    inode.data.copy(data);
    data.set(bytes, at);
    this.files.write(inode, data);
    if (position === null) description.position = end;
    return bytes.length;
  }

  truncate(process: SimProcess, fd: number, length: number): void {
    const { inode } = this.#fileOf(process, fd, '');
    const data = Buffer.alloc(length);
    inode.data.copy(data);
    this.files.write(inode, data);
  }

  duplicate(process: SimProcess, from: number, to: number): void {
    const description = this.description(process, from);
    if (process.descriptors.has(to)) this.#release(process, to);
    process.descriptors.set(to, description);
    description.references += 1;
  }

  openSpecial(process: SimProcess, kind: 'inotify' | 'epoll'): number {
    if (kind === 'inotify') {
      const { mostQueuedEvents, count } = this.#options;
      const inotify = new InotifyInstance(mostQueuedEvents, () => count('inotify overflow'));
      return this.#install(process, { kind, inotify, references: 0 });
    }
    return this.#install(process, { kind, followed: new Set(), isReadable: false, references: 0 });
  }

  /** Nothing is ever written to it: it only hangs up. */
  openPipe(process: SimProcess): readonly [readEnd: number, writeEnd: number] {
    const end = { kind: 'pipe', isReadable: false, references: 0 } as const;
    const reading = this.#install(process, { ...end, readEnd: undefined });
    return [reading, this.#install(process, { ...end, readEnd: this.description(process, reading) })];
  }

  openPidfd(process: SimProcess, pid: number): number | undefined {
    if (!this.processes.has(pid)) return undefined;
    return this.#install(process, { kind: 'pidfd', pid, references: 0 });
  }

  /** proc_pid_fd(5) */
  linkOf(process: SimProcess, path: string): string {
    const target = readProcLink(this, process, path);
    if (target !== undefined) return target;
    const inode = this.inodeAt(process, path, { follow: false });
    if (inode.kind !== 'link') throw failure('EINVAL', 'readlink', path);
    return inode.target;
  }

  namesIn(process: SimProcess, path: string): readonly string[] | undefined {
    return readProcNames(this, process, path);
  }

  pathOfDescriptor(process: SimProcess, fd: number): string {
    const description = this.description(process, fd);
    if (description.kind !== 'file') return `anon_inode:[${description.kind}]`;
    return pathOf(description.dentry);
  }

  #procText(process: SimProcess, path: string): string {
    const text = readProcFile(this, process, path);
    if (text === undefined) throw failure('ESRCH', 'read', path);
    return text;
  }

  #fileOf(
    process: SimProcess | undefined,
    fd: number,
    path: string,
  ): Description & { readonly kind: 'file' } {
    const description = process?.descriptors.get(fd);
    if (description?.kind !== 'file') throw failure('ENOENT', 'open', path);
    return description;
  }

  /** The task's own writes always find room. */
  #needRoom(process: SimProcess, dentry: Dentry | undefined, call: string): void {
    if (this.full === undefined || process.name === 'task' || process.name === 'daemon') return;
    const path = pathOf(dentry);
    if (this.#options.nowMs() > this.full.untilMs || !path.startsWith(this.full.below)) return;
    this.#options.count('no room is left');
    throw failure('ENOSPC', call, path);
  }

  #create({ parent, name }: Found, path: string, flags: number, mode: number): Dentry {
    if ((flags & O.CREAT) === 0) throw failure('ENOENT', 'open', path);
    if (parent.self?.isLinked === false) throw failure('ENOENT', 'open', path);
    return this.files.link(parent, name, this.files.newInode('file', mode));
  }

  #install(process: SimProcess, description: Description): number {
    const fd = process.freeDescriptor();
    process.descriptors.set(fd, description);
    description.references += 1;
    return fd;
  }

  #release(process: SimProcess, fd: number): void {
    const description = process.descriptors.get(fd);
    process.descriptors.delete(fd);
    if (description === undefined) return;
    description.references -= 1;
    if (description.references > 0) return;
    if (description.kind === 'inotify') description.inotify.close();
    if (description.kind === 'pipe' && description.readEnd?.kind === 'pipe') {
      description.readEnd.isReadable = true;
      description.readEnd.onReadable?.();
    }
    if (description.kind !== 'file') return;
    const { inode, dentry, flags } = description;
    if (inode.lockedBy === description) inode.lockedBy = undefined;
    if (!isWritable(flags)) return;
    inode.writers -= 1;
    if (dentry !== undefined) notify(dentry.parent, IN.CLOSE_WRITE, dentry.name);
  }
}

/** The nearest ancestor that adopts orphans (prctl(2), PR_SET_CHILD_SUBREAPER). */
function subreaperOf(process: SimProcess): SimProcess | undefined {
  let at = process.parent;
  while (at !== undefined && !(at.isSubreaper && at.isAlive)) at = at.parent;
  return at;
}

export interface OpenOptions {
  /** Resolves beneath this directory, through no link (openat2(2)). */
  readonly dirfd?: number;
  readonly mode?: number;
}

function orphan(parent: Inode, inode: Inode): Dentry {
  return { parent, name: '', inode, isLinked: false };
}
