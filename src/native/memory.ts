// Memory for the content of files. It is shared, so threads pass it on without a copy. V8 does not count it: otherwise
// V8 takes each megabyte for future garbage, and searches its whole heap at every second part of a file. In return V8
// is in no hurry to free it, so its owner says when the pages may go.
import { addressOf, libcFunction } from './libc.ts';

/** madvise(2), sys/mman.h: the kernel takes the pages back, and they read as zeros. */
const MADV_DONTNEED = 4;
const getpagesize = libcFunction<[]>('int getpagesize()');
const madvise = libcFunction<[bytes: Uint8Array, lengthBytes: number, advice: number]>(
  'int madvise(void *, size_t, int)',
);

/** It takes up pages only once they are written to. */
export function newMemory(bytes: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(bytes));
}

/** The whole memory that `bytes` is a part of. */
export function wholeMemory(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer);
}

/** Gives the pages of the whole memory back to the kernel. It may be used again, but its content is lost. */
export function releaseMemory(bytes: Uint8Array): void {
  const whole = wholeMemory(bytes);
  const pageBytes = getpagesize();
  const first = Number(-addressOf(whole) & BigInt(pageBytes - 1));
  const lengthBytes = whole.length - first - ((whole.length - first) % pageBytes);
  // If the call fails, the pages go once V8 finds the memory unused.
  if (lengthBytes > 0) madvise(whole.subarray(first), lengthBytes, MADV_DONTNEED);
}
