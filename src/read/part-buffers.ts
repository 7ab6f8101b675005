// The memory of parts, used again: the garbage collector sees 8 MiB as one small object, and would let some
// ten of them pile up before it looks.
import type { Bytes } from './reading.ts';

/** One that is ready and two that are being sent; meanwhile one more is filled. */
const MOST_SPARE = 3;

export interface PartBuffers {
  /** Of exactly this size; what is in it is of no meaning. */
  take(partBytes: number): Bytes;
  /** The whole of what was taken, and nobody else's any more. */
  giveBack(bytes: Bytes): void;
}

export function openPartBuffers(): PartBuffers {
  let spare: Bytes[] = [];
  return {
    take: (partBytes) => {
      // Files of another part size are rare: their buffers are not worth keeping.
      spare = spare.filter((bytes) => bytes.length === partBytes);
      return spare.pop() ?? new Uint8Array(partBytes);
    },
    giveBack: (bytes) => {
      if (spare.length < MOST_SPARE) spare.push(bytes);
    },
  };
}
