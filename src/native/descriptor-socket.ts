// A socket for a descriptor that Node has no support for (inotify(7), epoll(7)), on libuv's own epoll: without a
// thread, a timer or a compiler. When it becomes readable, libuv reads it with read(2), as if it were a pipe.
import { Socket, type OnReadOpts, type SocketConstructorOpts } from 'node:net';
import { lastErrno, libcFunction, systemError } from './libc.ts';

const pipe2 = libcFunction<[Buffer, number]>('int pipe2(void*, int)');
const dup3 = libcFunction<[number, number, number]>('int dup3(int, int, int)');
const closeFd = libcFunction<[number]>('int close(int)');

const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;

/** They throw as node:fs does, except `close`, which never fails. A test may pass its own. */
export interface DescriptorCalls {
  /** [read end, write end], both non-blocking and closed on exec. */
  pipe(): readonly [number, number];
  /** Makes `to` a duplicate of `from` (dup3(2)). */
  replace(from: number, to: number): void;
  close(fd: number): void;
}

export const libcDescriptors: DescriptorCalls = {
  pipe: () => {
    const ends = new Int32Array(2);
    checked('pipe2', pipe2(Buffer.from(ends.buffer), O_NONBLOCK | O_CLOEXEC));
    return [ends[0] ?? -1, ends[1] ?? -1];
  },
  replace: (from, to) => void checked('dup3', dup3(from, to, O_CLOEXEC)),
  close: (fd) => void closeFd(fd),
};

/** The result of a call of libc. Throws the last errno if the result is negative, which means failure. */
export function checked(call: string, answer: number, path?: string): number {
  if (answer >= 0) return answer;
  throw systemError(call, lastErrno(), path);
}

/**
 * A socket on a duplicate of `descriptor`, which stays the caller's; `fd` belongs to the socket. The socket is made on
 * the read end of a pipe, and dup3(2) replaces that end before libuv passes it to epoll_ctl(2). This relies on the
 * order in which libuv works: in another order, no event would ever arrive. The caller resumes the socket.
 */
export function socketOn(
  descriptor: number,
  calls: DescriptorCalls,
  onread?: OnReadOpts,
): { readonly socket: Socket; readonly fd: number } {
  const [fd, writeEnd] = calls.pipe();
  const how: SocketConstructorOpts & { onread?: OnReadOpts } = { fd, readable: true, writable: false };
  const socket = new Socket(onread === undefined ? how : { ...how, onread });
  calls.replace(descriptor, fd);
  calls.close(writeEnd);
  return { socket, fd };
}
