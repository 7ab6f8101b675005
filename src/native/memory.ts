// How much the heap may take of what others send; and memory for the content of files. That is shared, so it passes from thread to thread without a copy and without a word to
// V8: that counts each megabyte as garbage to come, and looked through its whole heap for every other part of a file.
// In turn V8 never asks for it back: whoever has such memory says when its pages may go.
import v8 from 'node:v8';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { addressOf, libcFunction } from './libc.ts';

/** Bytes that may be kept of what others have written: half of the heap. If V8 finds no room, it ends the process. */
export function roomInHeap(): number {
  return Math.floor(v8.getHeapStatistics().heap_size_limit / 2);
}

/** The same items, of so many bytes each; throws status 69 if there are more than fit. `what`: of which there are too many. */
export async function* fitting<T>(
  items: AsyncIterable<T>,
  bytesEach: number,
  what: string,
): AsyncGenerator<T> {
  const most = Math.floor(roomInHeap() / bytesEach);
  let count = 0;
  for await (const item of items) {
    count += 1;
    if (count > most) throw tooMany(what, most);
    yield item;
  }
}

export function tooMany(what: string, most: number): CaptureError {
  return new CaptureError(EXIT.unavailable, `${what}: there are more than ${most}, which fit into memory`, {
    hint: 'if no run has stored so many, somebody else has, or the server lists without end: use another prefix',
  });
}

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
