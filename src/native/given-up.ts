// Calls that a file server may never answer. Such a call blocks a thread of libuv's pool, and nothing can end it: neither
// a caller with a deadline nor the end of the process may wait for that thread.
import { untilAborted } from '../model/waiting.ts';
import { libcFunction } from './libc.ts';

/** _exit(2): unlike process.exit(), it does not wait for the threads of the pool. */
const endNow = libcFunction<[status: number]>('void _exit(int)');

let underWay = 0;
let isListening = false;

/**
 * The result of `work`, or the signal's reason once it aborts. The work itself goes on: `late` gets a result that comes
 * after that, and its error is ignored. While any work is under way, the process still ends with its status.
 */
export async function orGivenUp<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  late?: (result: T) => void,
): Promise<T> {
  if (!isListening) process.on('exit', leave);
  isListening = true;
  underWay += 1;
  let isGivenUp = false;
  const settled = (): void => {
    underWay -= 1;
  };
  work.then((result) => {
    settled();
    if (isGivenUp) late?.(result);
  }, settled);
  try {
    return await untilAborted(work, signal);
  } catch (error) {
    isGivenUp = true;
    throw error;
  }
}

function leave(status: number): void {
  if (underWay === 0) return;
  // Those that came later would not be called any more.
  const listeners = process.listeners('exit');
  for (const listener of listeners.slice(listeners.indexOf(leave) + 1)) listener(status);
  endNow(status);
}
