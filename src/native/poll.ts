// poll(2): what is ready now, or a wait for it that does not hold up this thread. Node waits for its pool when the process
// exits: whoever waits without a limit also waits for a pipe, and closes its other end.
import { bindLibc, libcFunction } from './libc.ts';

export const POLLIN = 0x1;
export const POLLOUT = 0x4;
/** Also reported if nobody asks for it: nobody reads the pipe any more. */
export const POLLERR = 0x8;
/** Also reported if nobody asks for it: nobody writes to the pipe any more. */
export const POLLHUP = 0x10;

/** POLLIN, POLLOUT or 0. */
export type Wanted = readonly [fd: number, events: number];

const PROTOTYPE = 'int poll(void*, unsigned long, int)';
/** struct pollfd: int fd, short events, short revents. */
const POLLFD_BYTES = 8;
const WITHOUT_LIMIT = -1;

const pollSync = libcFunction<[fds: Buffer, count: number, timeoutMs: number]>(PROTOTYPE);
/** Bound on first use. */
let pollInPool: ReturnType<typeof bindLibc> | undefined;

/** Buffers that threads are writing into. Nothing else may keep them from being garbage collected meanwhile. */
const inUse = new Set<Buffer>();

/** The events of each descriptor at this moment. */
export function pollNow(wanted: readonly Wanted[]): readonly number[] {
  const list = listOf(wanted);
  pollSync(list, wanted.length, 0);
  return wanted.map((_, at) => list.readInt16LE(at * POLLFD_BYTES + 6));
}

/**
 * Resolves when there are events of one of the descriptors, or after `limitMs`. A signal may end the wait early. A
 * thread of libuv's pool waits.
 */
export function pollAny(wanted: readonly Wanted[], limitMs = WITHOUT_LIMIT): Promise<void> {
  pollInPool ??= bindLibc(PROTOTYPE);
  const call = pollInPool;
  const list = listOf(wanted);
  inUse.add(list);
  return new Promise((resolve, reject) => {
    call.async(list, wanted.length, limitMs, (error: Error | null) => {
      inUse.delete(list);
      if (error === null) resolve();
      else reject(error);
    });
  });
}

function listOf(wanted: readonly Wanted[]): Buffer {
  const list = Buffer.allocUnsafeSlow(wanted.length * POLLFD_BYTES).fill(0);
  for (const [at, [fd, events]] of wanted.entries()) {
    list.writeInt32LE(fd, at * POLLFD_BYTES);
    list.writeInt16LE(events, at * POLLFD_BYTES + 4);
  }
  return list;
}
