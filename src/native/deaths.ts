// Tells when a process dies that is not our child, without a timer: the kernel wakes us (pidfd_open(2), Linux 5.3). It
// says nothing of how the process ended, and nothing of processes that nobody has named to it.
import type { Socket } from 'node:net';
import { pidDescriptor } from './ended.ts';
import { libcFunction } from './libc.ts';
import { shareOfOpenFiles } from './processes.ts';
import { libcDescriptors, socketOn } from './readable.ts';

/** Each takes a descriptor of ours, for as long as nothing happens. */
const MOST_FOLLOWED = 256;

const createEpoll = libcFunction<[flags: number]>('int epoll_create1(int)');
const controlEpoll = libcFunction<[number, number, number, Buffer]>('int epoll_ctl(int, int, int, void*)');

const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
const EPOLLIN = 1;
/** struct epoll_event: 12 bytes on x86-64, 16 elsewhere; we read none of it back. */
const EVENT_BYTES = 16;

export interface Deaths {
  /**
   * From now on the first death of one of these is told, once: nothing follows until the next call. False if not all
   * of them can be heard, as one has died already, or they are too many: then nobody is followed, and the caller has to
   * look for itself.
   */
  follow(pids: Iterable<number>): boolean;
  close(): void;
}

/** Undefined where the kernel has no pidfd. */
export function openDeaths(onDeath: () => void): Deaths | undefined {
  const own = pidDescriptor(process.pid);
  if (own === undefined) return undefined;
  libcDescriptors.close(own);
  const epoll = createEpoll(EPOLL_CLOEXEC);
  if (epoll < 0) return undefined;
  const most = shareOfOpenFiles(MOST_FOLLOWED);
  const followed = new Map<number, number>(); // pid -> pidfd
  let ear: Socket | undefined;
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
    // Closed, it is taken out of the epoll(7) instance by itself.
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
      ear ??= listen(epoll, () => {
        ear = undefined;
        // Whoever has died may have left its pid to another one.
        forget(() => true);
        if (!isClosed) onDeath();
      });
      return true;
    },
    close: () => {
      isClosed = true;
      ear?.destroy();
      forget(() => true);
      libcDescriptors.close(epoll);
    },
  };
}

/**
 * An epoll(7) instance becomes readable, and cannot be read: read(2) gives EINVAL, which ends the socket. So a death wakes
 * us once, however many follow. Where libuv does not hear the instance, the pipe's end of file ends the socket at once:
 * then each call of `follow` is answered as if somebody had died.
 */
function listen(epoll: number, onReadable: () => void): Socket {
  const { socket } = socketOn(epoll, libcDescriptors);
  socket.on('error', () => undefined).once('close', onReadable);
  return socket.resume().unref();
}
