// Replaces src/native/libc.ts: the functions of libc that capture calls, by the prototypes that it declares.
import type { SimProcess } from '../machine/process.ts';
import type { Description } from '../machine/description.ts';
import { theWorld } from '../machine/world.ts';

export { failureOf as systemError };

function failureOf(call: string, code: string, path?: string): Error {
  const where = path === undefined ? '' : ` '${path}'`;
  return Object.assign(new Error(`${code}: ${call}${where}`), { code, syscall: call, path });
}

let errno = '';

export function lastErrno(): string {
  return errno;
}

export function addressOf(_bytes: Uint8Array): bigint {
  return 0n;
}

type Call = (process: SimProcess, ...args: never[]) => number;

export function libcFunction<Args extends readonly unknown[]>(prototype: string): (...args: Args) => number {
  const name = /(\w+)\(/.exec(prototype)?.[1] ?? '';
  // CPU time: code takes none here.
  if (name === 'clock_gettime') return () => 0;
  return (...args) => run(name, args);
}

export function bindLibc(prototype: string): {
  (...args: unknown[]): number;
  async(...args: unknown[]): void;
} {
  const call = libcFunction(prototype);
  return Object.assign((...args: unknown[]) => call(...args), {
    async: (...args: unknown[]): void => {
      const then = args.pop() as (error: Error | null, result: number) => void;
      const world = theWorld();
      if (prototype.startsWith('int poll(')) return waitFor(args[0] as Buffer, () => then(null, 1));
      world.after(world.diskMs(), () => then(null, call(...args)));
    },
  });
}

/** poll(2) without a limit, for descriptors that become readable. */
function waitFor(list: Buffer, then: () => void): void {
  const world = theWorld();
  const { process, kernel } = world;
  let isOver = false;
  const wake = (): void => {
    if (isOver) return;
    isOver = true;
    const ms = world.random.chance(world.lateWakes) ? world.random.ms(1, 300) : world.diskMs();
    world.scheduler.at(Math.max(world.nowMs, process.stalledUntilMs) + ms, process, then);
  };
  for (let at = 0; at < list.length; at += POLLFD_BYTES) {
    const description = kernel.description(process, list.readInt32LE(at));
    const source = description.kind === 'inotify' ? description.inotify : description;
    source.onReadable = wake;
    if ('isReadable' in source && source.isReadable) wake();
  }
}

function run(name: string, args: readonly unknown[]): number {
  return theWorld().call((process) => {
    const call = CALLS[name];
    if (call === undefined) throw new Error(`no ${name}() in this world`);
    try {
      return (call as (...all: unknown[]) => number)(process, ...args);
    } catch (error) {
      errno = (error as NodeJS.ErrnoException).code ?? '';
      if (errno === '') throw error;
      return -1;
    }
  });
}

function fail(code: string): never {
  throw failureOf('call', code);
}

function textOf(name: Buffer): string {
  return name.toString('utf8').replace(/\0.*$/s, '');
}

/** struct pollfd */
const POLLFD_BYTES = 8;
const F_SETLEASE = 1024;
const F_RDLCK = 0;
const LOCK_UN = 8;
const RLIMIT_ANSWER = 4096n;
const PR_SET_CHILD_SUBREAPER = 36;
const SYS_OPENAT2 = 437;
const SYS_PIDFD_OPEN = 434;

const CALLS: Readonly<Record<string, Call>> = {
  syscall: (process: SimProcess, number: number, ...rest: unknown[]) => {
    const { kernel } = theWorld();
    if (number === SYS_OPENAT2) {
      const [dirfd, name, how] = rest as [number, Buffer, Buffer];
      return kernel.open(process, textOf(name), how.readUInt32LE(0), { dirfd });
    }
    if (number === SYS_PIDFD_OPEN) return kernel.openPidfd(process, rest[1] as number) ?? fail('ESRCH');
    return 0; // priorities
  },
  openat: (process: SimProcess, dirfd: number, name: Buffer, flags: number) =>
    theWorld().kernel.open(process, textOf(name), flags, { dirfd }),
  fcntl: (process: SimProcess, fd: number, command: number, _type: string, value: number) => {
    const file = fileOf(process, fd);
    if (command !== F_SETLEASE) fail('EINVAL');
    return value === F_RDLCK && file.inode.writers > 0 ? fail('EAGAIN') : 0;
  },
  flock: (process: SimProcess, fd: number, operation: number) => {
    const file = fileOf(process, fd);
    const { inode } = file;
    if (operation === LOCK_UN) inode.lockedBy = undefined;
    else if (inode.lockedBy !== undefined && inode.lockedBy !== file) fail('EAGAIN');
    else inode.lockedBy = file;
    return 0;
  },
  renameat2: (process: SimProcess, _from: number, from: Buffer, _to: number, to: Buffer) => {
    const { kernel } = theWorld();
    const source = kernel.find(process, textOf(from), { follow: false }).dentry ?? fail('ENOENT');
    const target = kernel.find(process, textOf(to), { follow: false });
    if (target.dentry !== undefined) fail('EEXIST');
    kernel.files.rename(source, target.parent, target.name);
    return 0;
  },
  futimens: (process: SimProcess, fd: number, times: Buffer) => {
    const { inode } = fileOf(process, fd);
    theWorld().kernel.files.touch(inode);
    inode.mtimeNs = times.readBigInt64LE(16) * 1_000_000_000n + times.readBigInt64LE(24);
    return 0;
  },
  syncfs: (_process: SimProcess, fd: number) => (fd < 0 ? fail('EBADF') : 0),
  inotify_init1: (process: SimProcess) => theWorld().kernel.openSpecial(process, 'inotify'),
  inotify_add_watch: (process: SimProcess, fd: number, name: Buffer, mask: number) => {
    const { kernel } = theWorld();
    const inode = kernel.inodeAt(process, textOf(name), { follow: true });
    if (inode.kind !== 'directory') fail('ENOTDIR');
    return inotifyOf(process, fd).inotify.add(inode, mask);
  },
  inotify_rm_watch: (process: SimProcess, fd: number, watch: number) =>
    inotifyOf(process, fd).inotify.remove(watch) ? 0 : fail('EINVAL'),
  read: (process: SimProcess, fd: number, bytes: Buffer) => {
    const length = inotifyOf(process, fd).inotify.read(bytes);
    return length === 0 ? fail('EAGAIN') : length;
  },
  ioctl: (process: SimProcess, fd: number, _request: number, _type: string, answer: Buffer) => {
    const description = theWorld().kernel.description(process, fd);
    if (description.kind !== 'inotify') fail('ENOTTY');
    answer.writeInt32LE(description.inotify.queuedBytes, 0);
    return 0;
  },
  pipe2: (process: SimProcess, ends: Buffer) => {
    const [readEnd, writeEnd] = theWorld().kernel.openPipe(process);
    ends.writeInt32LE(readEnd, 0);
    ends.writeInt32LE(writeEnd, 4);
    return 0;
  },
  dup3: (process: SimProcess, from: number, to: number) => {
    theWorld().kernel.duplicate(process, from, to);
    return to;
  },
  close: (process: SimProcess, fd: number) => {
    theWorld().kernel.close(process, fd);
    return 0;
  },
  epoll_create1: (process: SimProcess) => theWorld().kernel.openSpecial(process, 'epoll'),
  epoll_ctl: (process: SimProcess, epoll: number, _operation: number, fd: number) => {
    const { kernel } = theWorld();
    const [set, pidfd] = [kernel.description(process, epoll), kernel.description(process, fd)];
    if (set.kind !== 'epoll' || pidfd.kind !== 'pidfd') fail('EPERM');
    set.followed.add(pidfd.pid);
    return 0;
  },
  prctl: (process: SimProcess, option: number) => {
    if (option === PR_SET_CHILD_SUBREAPER) process.isSubreaper = true;
    return 0;
  },
  setrlimit: () => 0,
  getrlimit: (_process: SimProcess, _resource: number, limit: Buffer) => {
    limit.writeBigUInt64LE(RLIMIT_ANSWER, 0);
    limit.writeBigUInt64LE(RLIMIT_ANSWER, 8);
    return 0;
  },
  getpagesize: () => 4096,
  madvise: () => 0,
  setpriority: () => 0,
  wait4: (process: SimProcess, pid: number, status: Buffer) => {
    const { kernel } = theWorld();
    const child = kernel.processes.get(pid);
    if (child === undefined || child.parent !== process) return fail('ECHILD');
    if (!child.isZombie) return 0;
    status.writeInt32LE(child.status, 0);
    kernel.reap(child);
    return pid;
  },
  getsockopt: (_process: SimProcess, _fd: number, _level: number, _option: number, value: Uint32Array) => {
    value.set([1, 0, 0]);
    return 0;
  },
};

function fileOf(process: SimProcess, fd: number): Description & { readonly kind: 'file' } {
  const description = theWorld().kernel.description(process, fd);
  return description.kind === 'file' ? description : fail('EBADF');
}

function inotifyOf(process: SimProcess, fd: number): Description & { readonly kind: 'inotify' } {
  const description = theWorld().kernel.description(process, fd);
  return description.kind === 'inotify' ? description : fail('EINVAL');
}
