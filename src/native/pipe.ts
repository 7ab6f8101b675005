// Pipes as the kernel offers them: made for a child, passed on without a copy, enlarged. No call here ever waits, and
// none changes the flags of an open file that others share.
import { checked } from './descriptor-socket.ts';
import { lastErrno, libcFunction, systemError } from './libc.ts';

const pipe2 = libcFunction<[ends: Buffer, flags: number]>('int pipe2(void*, int)');
const tee = libcFunction<[from: number, to: number, length: number, flags: number]>(
  'long tee(int, int, size_t, unsigned int)',
);
const fcntl =
  libcFunction<[fd: number, command: number, type: 'int', value: number]>('int fcntl(int, int, ...)');

const O_CLOEXEC = 0o2000000;
const SPLICE_F_NONBLOCK = 2;
const F_SETPIPE_SZ = 1031;
const F_GETPIPE_SZ = 1032;

export interface Pipe {
  readonly readFd: number;
  readonly writeFd: number;
}

/** Blocking, as a child expects it, and closed on exec. Throws EMFILE and the like. */
export function newPipe(): Pipe {
  const ends = new Int32Array(2);
  checked('pipe2', pipe2(Buffer.from(ends.buffer), O_CLOEXEC));
  return { readFd: ends[0] ?? -1, writeFd: ends[1] ?? -1 };
}

/**
 * Passes the first bytes of a pipe on to another one, and leaves them in the first (tee(2)). Returns how many: 0 if
 * there are none, or no room for them. The kernel passes whole buffers on, so what was written with one write(2) of at
 * most PIPE_BUF bytes stays whole beside what others write (pipe(7)). Throws EPIPE if nobody reads the other one, EINVAL
 * if it is no pipe, and ENOSYS or EPERM in a sandbox that forbids it.
 */
export function passOn(from: number, to: number, mostBytes: number): number {
  const length = tee(from, to, mostBytes, SPLICE_F_NONBLOCK);
  if (length >= 0) return length;
  const code = lastErrno();
  if (code === 'EAGAIN' || code === 'EINTR') return 0;
  throw systemError('tee', code);
}

/** How many bytes it holds at most. Throws EBADF if it is no pipe. */
export function pipeCapacity(fd: number): number {
  return checked('fcntl', fcntl(fd, F_GETPIPE_SZ, 'int', 0));
}

/** At least so many bytes from now on; false if the kernel does not allow us as many (pipe(7), pipe-max-size). */
export function enlargePipe(fd: number, capacityBytes: number): boolean {
  return fcntl(fd, F_SETPIPE_SZ, 'int', capacityBytes) >= 0;
}
