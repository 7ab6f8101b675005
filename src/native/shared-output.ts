// Writes to a file descriptor that we share with the task. Uses no stream: libuv would make a shared pipe non-blocking,
// and the task would get EAGAIN. Must never block for long, nor fail the run.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { lastErrno, libcFunction } from './libc.ts';
import { mountOfOpen } from './mounts.ts';
import { isNetworkFileSystem } from './network-files.ts';
import { pollNow, POLLOUT } from './poll.ts';

/** If a reader takes nothing for this long, the message is lost: capturing goes on. */
const PATIENCE_MS = 500;
const PAUSE_MS = 5;

const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes all of the text, synchronously. If nobody reads any more (EPIPE, a closed descriptor, a terminal that hung
 * up), or the reader keeps us waiting for half a second, the text is lost, and nothing else happens.
 */
export function writeText(fd: number, text: string): void {
  const bytes = Buffer.from(text, 'utf8');
  let at = 0;
  let pausedMs = 0;
  while (at < bytes.length) {
    try {
      at += fs.writeSync(fd, bytes, at);
    } catch (error) {
      // Another process has made the pipe non-blocking, and it is full.
      if (errnoOf(error) !== 'EAGAIN' || pausedMs >= PATIENCE_MS) return;
      Atomics.wait(pause, 0, 0, PAUSE_MS);
      pausedMs += PAUSE_MS;
    }
  }
}

/**
 * A write that never waits for the reader. It never makes the shared open file non-blocking, which would affect the
 * task too: it opens the file again for itself, or asks in each call.
 */
export interface TryWrite {
  /**
   * Returns the bytes taken: fewer than given, or 0, if the reader has no room now. If nobody can read them any more,
   * all count as taken.
   */
  write(bytes: Buffer): number;
  /** True while bytes that were taken are on their way to a file server. */
  readonly isBusy: boolean;
  /** Closes what {@link openTryWrite} opened. */
  close(): void;
}

const send = libcFunction<[fd: number, bytes: Buffer, length: number, flags: number]>(
  'long send(int, const void*, size_t, int)',
);

/** MSG_DONTWAIT | MSG_NOSIGNAL (send(2), Linux). */
const WITHOUT_WAITING = 0x40 | 0x4000;
/** What a pipe takes without waiting, on every system, if poll(2) calls it writable (PIPE_BUF of POSIX). */
const PIPE_BYTES = 512;

/**
 * Chooses the way that fits `fd`: a file, pipe, terminal or socket. Never throws. `hasRoom` is called when bytes have
 * arrived that were on their way.
 */
export function openTryWrite(fd: number, hasRoom: () => void): TryWrite {
  try {
    // Also fstat(2) may wait for the server.
    if (isNetworkFileSystem(mountOfOpen(fd)?.type ?? '')) return writtenAside(fd, hasRoom);
    const stat = fs.fstatSync(fd);
    if (stat.isFile()) return tryWrite((bytes) => written(() => fs.writeSync(fd, bytes), bytes));
    if (stat.isSocket()) return tryWrite(orWithoutLibc(fd, sent));
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
    // An open file description of our own, with its own flags (proc(5), /proc/pid/fd; open(2)).
    const own = fs.openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    return tryWrite(
      (bytes) => written(() => fs.writeSync(own, bytes), bytes),
      () => fs.closeSync(own),
    );
  } catch {
    // Another user's terminal, no /proc, or a FIFO without a reader now.
  }
  return tryWrite(orWithoutLibc(fd, writtenAfterPoll));
}

function tryWrite(write: TryWrite['write'], close: TryWrite['close'] = () => undefined): TryWrite {
  return { write, isBusy: false, close };
}

/**
 * A file server may not answer for hours, and so each write waits in a thread. A log on a home directory is the rule on
 * clusters.
 */
function writtenAside(fd: number, hasRoom: () => void): TryWrite {
  let isBusy = false;
  return {
    write: (bytes) => {
      if (isBusy) return 0;
      isBusy = true;
      fs.write(fd, bytes, 0, bytes.length, null, () => {
        isBusy = false;
        hasRoom();
      });
      return bytes.length;
    },
    get isBusy() {
      return isBusy;
    },
    close: () => undefined,
  };
}

/** Writes even if koffi cannot be loaded, as the text may be the message about that. */
function orWithoutLibc(fd: number, write: (fd: number, bytes: Buffer) => number): TryWrite['write'] {
  return (bytes) => {
    try {
      return write(fd, bytes);
    } catch {
      return written(() => fs.writeSync(fd, bytes), bytes);
    }
  };
}

function written(write: () => number, bytes: Buffer): number {
  try {
    return write();
  } catch (error) {
    return errnoOf(error) === 'EAGAIN' ? 0 : bytes.length;
  }
}

function sent(fd: number, bytes: Buffer): number {
  const length = send(fd, bytes, bytes.length, WITHOUT_WAITING);
  if (length >= 0) return length;
  return lastErrno() === 'EAGAIN' ? 0 : bytes.length;
}

/** Waits only if another process fills the pipe between the two calls. */
function writtenAfterPoll(fd: number, bytes: Buffer): number {
  if (pollNow([[fd, POLLOUT]])[0] === 0) return 0;
  return written(() => fs.writeSync(fd, bytes, 0, Math.min(PIPE_BYTES, bytes.length)), bytes);
}
