// The first step: inotify(7) as libc offers it, and how its bytes reach this thread. event-bytes.ts parses them.
// Nothing here knows paths or decides anything; every number is the kernel's.
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { pathBytes } from '../model/path.ts';
import { lastErrno, libcFunction, systemError } from '../native/libc.ts';
import { checked, type DescriptorCalls, libcDescriptors, socketOn } from '../native/descriptor-socket.ts';
import { POLLIN, pollAny } from '../native/poll.ts';

export const IN = {
  closeWrite: 0x8,
  movedFrom: 0x40,
  movedTo: 0x80,
  create: 0x100,
  queueOverflow: 0x4000,
  ignored: 0x8000,
  onlyDir: 0x1000000,
  dontFollow: 0x2000000,
  isDir: 0x40000000,
} as const;

/**
 * The events that each directory is watched for. IN_EXCL_UNLINK must stay out: with it the kernel does not report the
 * close of a file that was opened with O_TMPFILE and linked in later.
 */
export const DIRECTORY_MASK =
  IN.closeWrite | IN.movedFrom | IN.movedTo | IN.create | IN.onlyDir | IN.dontFollow;

/** The system calls of the watcher. They throw as node:fs does when they fail; a test may replace them. */
export interface InotifyCalls extends DescriptorCalls {
  /** A new inotify instance, non-blocking (inotify_init1(2)); EMFILE: `max_user_instances` is used up. */
  open(): number;
  /** Watches `path` and returns the watch descriptor; ENOSPC: `max_user_watches` is used up. */
  add(fd: number, path: string, mask: number): number;
  /** Never throws: the kernel may have dropped the watch already. */
  remove(fd: number, watch: number): void;
  /** Bytes read; 0 when nothing is queued. */
  read(fd: number, bytes: Buffer): number;
  /** Bytes that are queued now (FIONREAD). */
  queuedBytes(fd: number): number;
}

const initialize = libcFunction<[flags: number]>('int inotify_init1(int)');
const addWatch = libcFunction<[number, Buffer, number]>('int inotify_add_watch(int, const void*, uint32_t)');
const removeWatch = libcFunction<[number, number]>('int inotify_rm_watch(int, int)');
const readBytes = libcFunction<[number, Buffer, number]>('long read(int, void*, size_t)');
const ioctl = libcFunction<[number, number, 'void*', Buffer]>('int ioctl(int, unsigned long, ...)');

const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;
/** asm-generic/ioctls.h; only powerpc has its own. */
const FIONREAD = process.arch === 'ppc64' ? 0x4004667f : 0x541b;

export const libcInotify: InotifyCalls = {
  ...libcDescriptors,
  open: () => checked('inotify_init1', initialize(O_NONBLOCK | O_CLOEXEC)),
  add: (fd, path, mask) => {
    const name = Buffer.concat([pathBytes(path), Buffer.of(0)]);
    return checked('inotify_add_watch', addWatch(fd, name, mask), path);
  },
  remove: (fd, watch) => void removeWatch(fd, watch),
  read: (fd, bytes) => {
    const length = readBytes(fd, bytes, bytes.length);
    if (length >= 0) return length;
    const code = lastErrno();
    if (code === 'EAGAIN') return 0;
    throw systemError('read', code);
  },
  queuedBytes: (fd) => {
    const answer = new Int32Array(1);
    checked('ioctl', ioctl(fd, FIONREAD, 'void*', Buffer.from(answer.buffer)));
    return answer[0] ?? 0;
  },
};

export type OnBytes = (bytes: Buffer, length: number) => void;

/**
 * How the bytes of an inotify instance reach this thread: through libuv's own epoll, or through a pool thread that
 * waits for them. Both leave the bytes in the kernel until this thread reads them, so drain() and the listener can
 * never overtake each other. Neither keeps a timer.
 */
export interface Reader {
  readonly mode: 'inotify' | 'inotify-read';
  /** Watches `path` and returns the watch; ENOSPC: `max_user_watches` is used up. */
  watch(path: string, mask: number): number;
  /** Never throws: the kernel may have dropped the watch already. */
  unwatch(watch: number): void;
  /** From now on `onBytes` gets all bytes as they arrive. Before the first watch there are none. */
  listen(onBytes: OnBytes): void;
  /** Reads everything that is queued at this moment, before it returns. */
  drain(onBytes: OnBytes): void;
  /** While `atOnce` is true, each event is read as it arrives; none waits so that others can be read with it. */
  readAtOnce(atOnce: boolean): void;
  close(): Promise<void>;
}

/** Opens an inotify instance and reads it. */
export type OpenReader = (calls: InotifyCalls) => Reader;

/** Takes about 8,000 events at a time: half of the kernel's queue. */
const READ_BYTES = 256 * 1024;

/**
 * Closes in quick succession are read together after this pause, which is shorter than their requests to the store
 * take. A pause twice as long would save 0.1 ms of CPU for each close, and show a result 10 ms later.
 */
const GATHER_MS = 20;
/** Two wake-ups that are further apart than this are not in quick succession. */
const SOON_MS = 2 * GATHER_MS;

/**
 * The quick way, without a thread: libuv's own epoll. It relies on libuv's order, hence the self-test. The socket has
 * no listener for errors, so a read error ends the process: no event would arrive any more.
 */
export const openEpollReader: OpenReader = (calls) => {
  const instance = calls.open();
  const bytes = Buffer.allocUnsafeSlow(READ_BYTES);
  const pauses = new Pauses(() => socket.resume());
  let receive: OnBytes = () => undefined;
  const take = (length: number): boolean => {
    receive(bytes, length);
    return !pauses.isDue();
  };
  let socket: Socket;
  let fd: number;
  try {
    ({ socket, fd } = socketOn(instance, calls, { buffer: bytes, callback: take }));
  } finally {
    calls.close(instance);
  }
  socket.resume();
  return {
    mode: 'inotify',
    ...watchesOf(calls, fd),
    listen: (onBytes) => {
      receive = onBytes;
    },
    drain: (take) => drain(calls, fd, bytes, take),
    readAtOnce: (atOnce) => pauses.suspend(atOnce),
    close: async () => {
      pauses.cancel();
      const closed = once(socket, 'close');
      socket.destroy();
      await closed;
    },
  };
};

/**
 * The way that relies on no order: one thread of libuv's pool waits in poll(2) for the instance, or for the hang-up of
 * a pipe. The hang-up at 'exit' matters: Node waits for its pool when the process exits.
 */
export const openPollReader: OpenReader = (calls) => {
  const fd = calls.open();
  const [hangUp, writeEnd] = pipeOrClose(calls, fd);
  const bytes = Buffer.allocUnsafeSlow(READ_BYTES);
  const closing = new AbortController();
  let receive: OnBytes = () => undefined;
  const release = (): void => {
    closing.abort();
    calls.close(writeEnd);
  };
  const run = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      // oxlint-disable-next-line no-await-in-loop -- one wait at a time is the point
      await pollAny([fd, hangUp].map((one) => [one, POLLIN]));
      if (!closing.signal.aborted) drain(calls, fd, bytes, receive);
    }
    calls.close(fd);
    calls.close(hangUp);
  };
  process.once('exit', release);
  const ended = run();
  return {
    mode: 'inotify-read',
    ...watchesOf(calls, fd),
    listen: (onBytes) => {
      receive = onBytes;
    },
    drain: (take) => drain(calls, fd, bytes, take),
    readAtOnce: () => undefined,
    close: async () => {
      process.off('exit', release);
      release();
      await ended;
    },
  };
};

function watchesOf(calls: InotifyCalls, fd: number): Pick<Reader, 'watch' | 'unwatch'> {
  return {
    watch: (path, mask) => calls.add(fd, path, mask),
    unwatch: (watch) => calls.remove(fd, watch),
  };
}

function pipeOrClose(calls: InotifyCalls, fd: number): readonly [number, number] {
  try {
    return calls.pipe();
  } catch (error) {
    calls.close(fd);
    throw error;
  }
}

/**
 * A wake-up for each event takes CPU time that the task could use: the event loop turns, and everything that a push
 * needs has left the core's caches. So the first event, and one after a while, is read at once. After the next one the
 * kernel collects events for a moment that is far too short to fill its queue.
 */
class Pauses {
  readonly #resume: () => void;
  #lastMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #isSuspended = false;

  constructor(resume: () => void) {
    this.#resume = resume;
  }

  /** Call it at each wake-up. True: read nothing until `resume` is called. */
  isDue(): boolean {
    const nowMs = performance.now();
    const isSoon = nowMs - this.#lastMs < SOON_MS;
    this.#lastMs = nowMs;
    if (!isSoon || this.#isSuspended) return false;
    this.#timer = setTimeout(this.#resume, GATHER_MS);
    return true;
  }

  /** No pause begins while `isSuspended`; a pause that has begun ends. */
  suspend(isSuspended: boolean): void {
    this.#isSuspended = isSuspended;
    if (!isSuspended) return;
    this.cancel();
    this.#resume();
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}

/** Reads at most what was queued at the start: a task that never pauses cannot keep us here. */
function drain(calls: InotifyCalls, fd: number, bytes: Buffer, onBytes: OnBytes): void {
  let left = calls.queuedBytes(fd);
  while (left > 0) {
    const length = calls.read(fd, bytes);
    if (length === 0) return;
    onBytes(bytes, length);
    left -= length;
  }
}
