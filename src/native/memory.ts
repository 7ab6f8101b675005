// Memory for the content of files. It is shared, so it passes from thread to thread without a copy and without a word to
// V8: that counts each megabyte as garbage to come, and looked through its whole heap for every other part of a file.
// In turn V8 never asks for it back: whoever has such memory says when its pages may go.
import { addressOf, libcFunction } from './libc.ts';

/** madvise(2), and sys/mman.h: the pages are the kernel's again, and read as zeros. */
const MADV_DONTNEED = 4;
const getpagesize = libcFunction<[]>('int getpagesize()');
const madvise = libcFunction<[bytes: Uint8Array, lengthBytes: number, advice: number]>(
  'int madvise(void *, size_t, int)',
);

/** It takes pages only as it is written to. */
export function newMemory(bytes: number): Uint8Array {
  return new Uint8Array(new SharedArrayBuffer(bytes));
}

/** All of the memory that `bytes` is a part of. */
export function wholeMemory(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer);
}

/** Gives the pages of all this memory back. It may be used again; what was in it is gone. */
export function emptyMemory(bytes: Uint8Array): void {
  const whole = wholeMemory(bytes);
  const pageBytes = getpagesize();
  const first = Number(-addressOf(whole) & BigInt(pageBytes - 1));
  const lengthBytes = whole.length - first - ((whole.length - first) % pageBytes);
  // Without it the pages go once V8 sees that nobody has the memory any more.
  if (lengthBytes > 0) madvise(whole.subarray(first), lengthBytes, MADV_DONTNEED);
}
