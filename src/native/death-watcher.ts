// Reports the death of a process that is not our child, without a timer: the kernel wakes us (pidfd_open(2), Linux
// 5.3). Knows nothing about how the process ended, and nothing about processes that it was not given.
import type { Socket } from 'node:net';
import { pidDescriptor } from './ended.ts';
import { libcFunction } from './libc.ts';
import { shareOfOpenFiles } from './processes.ts';
import { libcDescriptors, socketOn } from './descriptor-socket.ts';

/** Each takes a descriptor, even while nothing happens. */
const MOST_FOLLOWED = 256;

const createEpoll = libcFunction<[flags: number]>('int epoll_create1(int)');
const controlEpoll = libcFunction<[number, number, number, Buffer]>('int epoll_ctl(int, int, int, void*)');

const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
const EPOLLIN = 1;
/** struct epoll_event: 12 bytes on x86-64, 16 elsewhere; we read none of it back. */
const EVENT_BYTES = 16;

export interface DeathWatcher {
  /**
   * From now on the first death among these is reported, once; then nothing until the next call. False if not all of
   * them can be followed, because one has died already or there are too many. Then none is followed, and the caller
   * must poll.
   */
  follow(pids: Iterable<number>): boolean;
  close(): void;
}

/** Undefined if the kernel has no pidfd. */
export function openDeathWatcher(onDeath: () => void): DeathWatcher | undefined {
  const own = pidDescriptor(process.pid);
  if (own === undefined) return undefined;
  libcDescriptors.close(own);
  const epoll = createEpoll(EPOLL_CLOEXEC);
  if (epoll < 0) return undefined;
  const most = shareOfOpenFiles(MOST_FOLLOWED);
  const followed = new Map<number, number>(); // pid -> pidfd
  let socket: Socket | undefined;
  let isClosed = false;
  const forget = (is: (pid: number) => boolean): void => {
    for (const [pid, fd] of followed) {
      if (!is(pid)) continue;
      libcDescriptors.close(fd);
      followed.delete(pid);
    }
  };
  const follow = (pid: number): boolean => {
    if (followed.has(pid)) return true;
    const fd = pidDescriptor(pid);
    if (fd === undefined) return false;
    const event = Buffer.alloc(EVENT_BYTES);
    new Uint32Array(event.buffer, event.byteOffset, 1)[0] = EPOLLIN;
    // Closing it also removes it from the epoll(7) instance.
    if (controlEpoll(epoll, EPOLL_CTL_ADD, fd, event) < 0) libcDescriptors.close(fd);
    else followed.set(pid, fd);
    return followed.has(pid);
  };
  return {
    follow: (pids) => {
      const wanted = new Set(pids);
      forget((pid) => !wanted.has(pid));
      if (wanted.size > most || ![...wanted].every(follow)) {
        forget(() => true);
        return false;
      }
      socket ??= listen(epoll, () => {
        socket = undefined;
        // The pid of the dead process may belong to another one now.
        forget(() => true);
        if (!isClosed) onDeath();
      });
      return true;
    },
    close: () => {
      isClosed = true;
      socket?.destroy();
      forget(() => true);
      libcDescriptors.close(epoll);
    },
  };
}

/**
 * An epoll(7) instance becomes readable, but cannot be read: read(2) fails with EINVAL, which ends the socket. So a
 * death wakes us once, however many processes are followed. If libuv did not watch the instance, the end of file of the
 * pipe would end the socket at once, and each call of `follow` would report a death.
 */
function listen(epoll: number, onReadable: () => void): Socket {
  const { socket } = socketOn(epoll, libcDescriptors);
  socket.on('error', () => undefined).once('close', onReadable);
  return socket.resume().unref();
}
