// The parts that a large object is sent in. Pure.

const MiB = 2 ** 20;
export const MIN_PART_BYTES = 8 * MiB;
/** S3 accepts at most 10,000 parts of at least 5 MiB. The margin is for content that grows when compressed. */
const MOST_PARTS = 9000;

/** Part size for a file of `sizeBytes`: a whole number of MiB. */
export function partSizeBytes(sizeBytes: number): number {
  return Math.max(MIN_PART_BYTES, Math.ceil(sizeBytes / MOST_PARTS / MiB) * MiB);
}
