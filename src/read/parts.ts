// Cuts what is to be stored into parts of one size. The last part is set apart by its type: it must not be
// given out before the file is proven unchanged.
import type { PartBuffers } from './part-buffers.ts';
import type { Bytes } from './reading.ts';

/** S3 takes at most 10,000 parts of at least 5 MiB; room is left for what grows when it is compressed. */
const MIN_PART_BYTES = 8 * 2 ** 20;
const MOST_PARTS = 9000;

/** Yields every part but the last, and returns the last. */
export type Parts = AsyncGenerator<Bytes, Bytes>;

/** Part size for a file of `sizeBytes`, a whole number of MiB. */
export function partSizeBytes(sizeBytes: number): number {
  const MiB = 2 ** 20;
  return Math.max(MIN_PART_BYTES, Math.ceil(sizeBytes / MOST_PARTS / MiB) * MiB);
}

/** A piece need stay valid only until the next one is asked for. */
export async function* gather(
  pieces: AsyncIterable<Uint8Array>,
  partBytes: number,
  buffers: PartBuffers,
): Parts {
  let part = buffers.take(partBytes);
  let filledBytes = 0;
  for await (const piece of pieces) {
    let at = 0;
    while (at < piece.length) {
      // Only now is it known that the full part is not the last one.
      if (filledBytes === partBytes) {
        yield part;
        part = buffers.take(partBytes);
        filledBytes = 0;
      }
      const taken = piece.subarray(at, at + partBytes - filledBytes);
      part.set(taken, filledBytes);
      filledBytes += taken.length;
      at += taken.length;
    }
  }
  if (filledBytes === partBytes) return part;
  const last = part.slice(0, filledBytes);
  buffers.giveBack(part);
  return last;
}

/** A body that is one part. */
// oxlint-disable-next-line require-yield -- it has no part but the last
export async function* onePart(bytes: Bytes): Parts {
  return bytes;
}
