// poll(2) on a thread of libuv's pool, for the one reader that must wait outside of libuv's epoll.
import { bindLibc } from '../native/libc.ts';

const POLLIN = 1;
/** struct pollfd: int fd, short events, short revents. */
const POLLFD_BYTES = 8;
const WITHOUT_LIMIT = -1;

let poll: ReturnType<typeof bindLibc> | undefined;

/** What threads are writing into: nothing else may keep it from being collected meanwhile. */
const inUse = new Set<Buffer>();

/** Waits until one of the descriptors can be read, or was hung up; a signal may end the wait early. */
export function pollReadable(fds: readonly number[]): Promise<void> {
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
