// Modification times to the nanosecond: Node's utimes takes a double, which is too coarse to give a file the
// very time that it had.
import { lastErrno, libcFunction, systemError } from './libc.ts';

const futimens = libcFunction<[fd: number, times: Buffer]>('int futimens(int, const void*)');
const NS_PER_S = 1_000_000_000n;

/** Sets atime and mtime of an open file (futimens(2)); `mtimeNs` counts from the epoch, as a decimal string. */
export function setMtime(fd: number, mtimeNs: string): void {
  const ns = BigInt.asIntN(64, BigInt(mtimeNs));
  const rest = ((ns % NS_PER_S) + NS_PER_S) % NS_PER_S;
  const times = Buffer.alloc(32); // struct timespec[2]: seconds, ns; atime, mtime
  for (const at of [0, 16]) {
    times.writeBigInt64LE((ns - rest) / NS_PER_S, at);
    times.writeBigInt64LE(rest, at + 8);
  }
  if (futimens(fd, times) !== 0) throw systemError('futimens', lastErrno());
}
