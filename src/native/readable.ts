// A descriptor of a kind that Node knows nothing of (inotify(7), epoll(7)), on libuv's own epoll: without a thread, a
// timer or a compiler. What becomes readable is read(2) by libuv, as if it were a pipe.
import { Socket, type OnReadOpts, type SocketConstructorOpts } from 'node:net';
import { lastErrno, libcFunction, systemError } from './libc.ts';

const pipe2 = libcFunction<[Buffer, number]>('int pipe2(void*, int)');
const dup3 = libcFunction<[number, number, number]>('int dup3(int, int, int)');
const closeFd = libcFunction<[number]>('int close(int)');

const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;

/** They throw as node:fs does, but for `close`, which never fails; a test may put in its own. */
export interface DescriptorCalls {
  /** Both ends non-blocking, closed on exec: [read end, write end]. */
  pipe(): readonly [number, number];
  /** Makes `to` another name of the open file `from` (dup3(2)). */
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

/** What a call returned. Throws the last errno when it is negative, as libc says that it failed. */
export function checked(call: string, answer: number, path?: string): number {
  if (answer >= 0) return answer;
  throw systemError(call, lastErrno(), path);
}

/**
 * A socket on another name of `descriptor`, which stays the caller's; `fd` belongs to the socket. It is made on a pipe's
 * read end, which dup3(2) makes that other name before libuv hands it to epoll_ctl(2). It leans on libuv's order: where
 * that was another one, nothing would ever be heard. To be resumed by the caller.
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
