// Writes to a file descriptor that we share with the task, without a stream: libuv would make a shared pipe
// non-blocking, and the task would read EAGAIN. Must never block for long, nor fail the run.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { lastErrno, libcFunction } from './libc.ts';

/** A reader that takes nothing for so long loses the message: capturing goes on. */
const PATIENCE_MS = 500;
const PAUSE_MS = 5;

const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes all of it, synchronously. Text is lost, and nothing else happens, when nobody reads any more (EPIPE,
 * a closed descriptor, a terminal that hung up), or nobody for half a second.
 */
export function writeText(fd: number, text: string): void {
  const bytes = Buffer.from(text, 'utf8');
  let at = 0;
  let pausedMs = 0;
  while (at < bytes.length) {
    try {
      at += fs.writeSync(fd, bytes, at);
    } catch (error) {
      // Somebody else made the pipe non-blocking, and it is full.
      if (errnoOf(error) !== 'EAGAIN' || pausedMs >= PATIENCE_MS) return;
      Atomics.wait(pause, 0, 0, PAUSE_MS);
      pausedMs += PAUSE_MS;
    }
  }
}

/**
 * A write that never waits for the reader. The shared file is never made non-blocking, which would be done to the task
 * too: we open it once more for ourselves, or ask for each call.
 */
export interface TryWrite {
  /**
   * Bytes taken: fewer than given, or 0, when the reader has no room now. What nobody can read any more counts as taken.
   */
  write(bytes: Buffer): number;
  /** Closes what was opened here. */
  close(): void;
}

const send = libcFunction<[fd: number, bytes: Buffer, length: number, flags: number]>(
  'long send(int, const void*, size_t, int)',
);
const poll = libcFunction<[fds: Buffer, count: number, timeoutMs: number]>(
  'int poll(void*, unsigned long, int)',
);

/** MSG_DONTWAIT | MSG_NOSIGNAL (send(2), Linux). */
const WITHOUT_WAITING = 0x40 | 0x4000;
const POLLOUT = 4;
/** struct pollfd: int fd, short events, short revents. */
const POLLFD_BYTES = 8;
/** What a pipe that poll(2) calls writable takes without waiting, on every system (PIPE_BUF of POSIX). */
const PIPE_BYTES = 512;

/** The way that fits what `fd` is now: file, pipe, terminal, socket. Never throws. */
export function openTryWrite(fd: number): TryWrite {
  try {
    const stat = fs.fstatSync(fd);
    if (stat.isFile())
      return { write: (bytes) => written(() => fs.writeSync(fd, bytes), bytes), close: nothing };
    if (stat.isSocket()) return { write: orWithoutLibc(fd, sent), close: nothing };
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = fs.constants;
    // An open file of our own, with flags of its own (proc(5), /proc/pid/fd; open(2)).
    const own = fs.openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    return {
      write: (bytes) => written(() => fs.writeSync(own, bytes), bytes),
      close: () => fs.closeSync(own),
    };
  } catch {
    // Another user's terminal, no /proc, a FIFO that has no reader now.
  }
  return { write: orWithoutLibc(fd, writtenAfterPoll), close: nothing };
}

function nothing(): void {}

/** Where koffi cannot be loaded, that is what we have to say. */
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

/** Waits only if another process takes the room between the two calls. */
function writtenAfterPoll(fd: number, bytes: Buffer): number {
  const list = Buffer.alloc(POLLFD_BYTES);
  list.writeInt32LE(fd, 0);
  list.writeInt16LE(POLLOUT, 4);
  if (poll(list, 1, 0) === 0) return 0;
  return written(() => fs.writeSync(fd, bytes, 0, Math.min(PIPE_BYTES, bytes.length)), bytes);
}
