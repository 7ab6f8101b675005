// Splits the bytes that inotify has written into a buffer into events (inotify(7), struct inotify_event).
import { decodePath } from '../model/path.ts';

/** `cookie` ties a MOVED_FROM to its MOVED_TO; `name` is '' for an event of the watched directory itself. */
export type OnKernelEvent = (watch: number, mask: number, cookie: number, name: string) => void;

/** struct inotify_event without its name. */
const HEADER_BYTES = 16;
/** The longest event: a name of NAME_MAX bytes with its NUL, padded. */
const LONGEST_EVENT_BYTES = HEADER_BYTES + 256;

/** True if the buffer is so full that the kernel may hold more events. */
export function mayBeMore(bytes: Buffer, length: number): boolean {
  return bytes.length - length < LONGEST_EVENT_BYTES;
}

/** Reads the events in the first `length` bytes. The buffer must start at a multiple of 4. */
export function parseEvents(bytes: Buffer, length: number, onEvent: OnKernelEvent): void {
  const words = wordsOf(bytes, length);
  splitEvents(bytes, length, (watch, mask, start, end) => {
    onEvent(watch, mask, words[(start >> 2) + 2] ?? 0, nameOf(bytes, start + HEADER_BYTES, end));
  });
}

/** Where each event in the first `length` bytes begins and ends. */
export function splitEvents(
  bytes: Buffer,
  length: number,
  onEvent: (watch: number, mask: number, start: number, end: number) => void,
): void {
  const words = wordsOf(bytes, length);
  let at = 0;
  while (at + HEADER_BYTES <= length) {
    const word = at >> 2;
    const next = at + HEADER_BYTES + (words[word + 3] ?? 0);
    onEvent((words[word] ?? 0) | 0, words[word + 1] ?? 0, at, next);
    at = next;
  }
}

/** The kernel pads each event to a multiple of 16: its fields are words of the machine's own byte order. */
function wordsOf(bytes: Buffer, length: number): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, length >> 2);
}

/** The name ends at the first NUL. Nearly every name is ASCII, which needs no UTF-8 decoding. */
function nameOf(bytes: Buffer, start: number, limit: number): string {
  let end = start;
  let seen = 0;
  while (end < limit) {
    const byte = bytes[end] ?? 0;
    if (byte === 0) break;
    seen |= byte;
    end += 1;
  }
  if (end === start) return '';
  return seen < 0x80 ? bytes.toString('latin1', start, end) : decodePath(bytes.subarray(start, end));
}
