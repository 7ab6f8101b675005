// How the bytes of an inotify instance reach this thread: on libuv's own epoll, or by a pool thread that
// waits for them. Both leave the bytes in the kernel until this thread takes them, so that drain() and the
// callback can never overtake each other. Neither keeps a timer.
import { once } from 'node:events';
import { Socket, type OnReadOpts, type SocketConstructorOpts } from 'node:net';
import { bindLibc } from '../native/libc.ts';
import type { InotifyCalls } from './inotify.ts';

export type OnBytes = (bytes: Buffer, length: number) => void;

/** Opens an inotify instance and hands over its bytes as they come. */
export type OpenReader = (calls: InotifyCalls, onBytes: OnBytes) => Reader;

export interface Reader {
  readonly mode: 'inotify' | 'inotify-read';
  /** The inotify instance; it belongs to the reader. */
  readonly fd: number;
  /** Takes all that is queued at this moment, now. */
  drain(onBytes: OnBytes): void;
  close(): Promise<void>;
}

/** Takes about 8,000 events at a time: half of the kernel's queue. */
const READ_BYTES = 256 * 1024;

/** More than 8,000 wake-ups a second. */
const STORM = { wakeUps: 32, withinMs: 4, pauseMs: 2 } as const;

const POLLIN = 1;
/** struct pollfd: int fd, short events, short revents. */
const POLLFD_BYTES = 8;
const WITHOUT_LIMIT = -1;

/**
 * The quick way, without thread or compiler: a socket on a pipe's read end, which dup3(2) makes another name
 * of the inotify instance before libuv hands it to epoll_ctl(2). It leans on libuv's order, hence the
 * self-test. A read error has no listener: it ends the process, as nothing would be heard any more.
 */
export const openEpollReader: OpenReader = (calls, onBytes) => {
  const instance = calls.open();
  const bytes = Buffer.allocUnsafeSlow(READ_BYTES);
  const pause = openPauses(() => socket.resume());
  const take = (length: number): boolean => {
    onBytes(bytes, length);
    return !pause.isDue();
  };
  let socket: Socket;
  let fd: number;
  try {
    let writeEnd: number;
    [fd, writeEnd] = calls.pipe();
    const onread: OnReadOpts = { buffer: bytes, callback: take };
    const how: SocketConstructorOpts & { onread: OnReadOpts } = {
      fd,
      readable: true,
      writable: false,
      onread,
    };
    socket = new Socket(how);
    calls.replace(instance, fd);
    calls.close(writeEnd);
  } finally {
    calls.close(instance);
  }
  socket.resume();
  return {
    mode: 'inotify',
    fd,
    drain: (take) => drain(calls, fd, bytes, take),
    close: async () => {
      pause.cancel();
      const closed = once(socket, 'close');
      socket.destroy();
      await closed;
    },
  };
};

/**
 * The way that leans on nothing: one thread of libuv's pool waits in poll(2) for the instance, or for the
 * hang-up of a pipe. The hang-up at 'exit' matters: Node waits for its pool when the process exits.
 */
export const openPollReader: OpenReader = (calls, onBytes) => {
  const fd = calls.open();
  const [hangUp, writeEnd] = pipeOrClose(calls, fd);
  const bytes = Buffer.allocUnsafeSlow(READ_BYTES);
  const closing = new AbortController();
  const release = (): void => {
    closing.abort();
    calls.close(writeEnd);
  };
  const run = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      // oxlint-disable-next-line no-await-in-loop -- one wait at a time is the point
      await pollReadable([fd, hangUp]);
      if (!closing.signal.aborted) drain(calls, fd, bytes, onBytes);
    }
    calls.close(fd);
    calls.close(hangUp);
  };
  process.once('exit', release);
  const ended = run();
  return {
    mode: 'inotify-read',
    fd,
    drain: (take) => drain(calls, fd, bytes, take),
    close: async () => {
      process.off('exit', release);
      release();
      await ended;
    },
  };
};

/** poll(2), bound on first use. */
let poll: ReturnType<typeof bindLibc> | undefined;

/** What threads are writing into: nothing else may keep it from being collected meanwhile. */
const inUse = new Set<Buffer>();

/** Waits until one of the descriptors can be read, or was hung up; a signal may end the wait early. */
function pollReadable(fds: readonly number[]): Promise<void> {
  poll ??= bindLibc('int poll(void*, unsigned long, int)');
  const call = poll;
  const list = Buffer.allocUnsafeSlow(fds.length * POLLFD_BYTES).fill(0);
  const fields = new Int32Array(list.buffer);
  const events = new Int16Array(list.buffer);
  for (const [at, fd] of fds.entries()) {
    fields[at * 2] = fd;
    events[at * 4 + 2] = POLLIN;
  }
  inUse.add(list);
  return new Promise((resolve, reject) => {
    call.async(list, fds.length, WITHOUT_LIMIT, (error: Error | null) => {
      inUse.delete(list);
      if (error === null) resolve();
      else reject(error);
    });
  });
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
 * In a storm each wake-up brings one event and takes CPU time that the task could use. After many of them in a
 * short time the kernel may collect events for a moment, far shorter than its queue is long.
 */
function openPauses(resume: () => void): { isDue(): boolean; cancel(): void } {
  let sinceMs = 0;
  let wakeUps = 0;
  let timer: NodeJS.Timeout | undefined;
  return {
    isDue: () => {
      wakeUps += 1;
      if (wakeUps < STORM.wakeUps) return false;
      const nowMs = performance.now();
      const isStorm = nowMs - sinceMs < STORM.withinMs;
      sinceMs = nowMs;
      wakeUps = 0;
      if (isStorm) timer = setTimeout(resume, STORM.pauseMs);
      return isStorm;
    },
    cancel: () => clearTimeout(timer),
  };
}

/** Bounded by what was queued at the start: a task that never pauses cannot keep us here. */
function drain(calls: InotifyCalls, fd: number, bytes: Buffer, onBytes: OnBytes): void {
  let left = calls.queuedBytes(fd);
  while (left > 0) {
    const length = calls.read(fd, bytes);
    if (length === 0) return;
    onBytes(bytes, length);
    left -= length;
  }
}
