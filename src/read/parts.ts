// From the bytes of a file to the parts that are stored: compressed where that is worth it, cut to one size, given out
// as the reader asks for them. The last part is set apart by its type: it must not leave before the file is proven.
import type { Compression } from '../model/format/settings.ts';
import type { Compressor } from './compress.ts';
import type { BodyHead, Bytes, Proof, WorkerAnswer } from './reading.ts';

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

/** What gains less than 5 % is sent as it is: it would cost the reader more than it saves. */
const WORTH_RATIO = 0.95;

export interface Encoded {
  readonly compressed: boolean;
  readonly parts: Parts;
}

export interface Encoding {
  readonly sizeBytes: number;
  readonly compression: Compression;
  /** Undefined where there is no zstd: then nothing is compressed. */
  readonly compressor: Compressor | undefined;
  readonly buffers: PartBuffers;
}

/** Reads the first chunk, and the rest as the parts are asked for. */
export async function encode(
  chunks: AsyncGenerator<Uint8Array, undefined>,
  { sizeBytes, compression, compressor, buffers }: Encoding,
): Promise<Encoded> {
  const first = (await chunks.next()).value;
  if (first === undefined) return { compressed: false, parts: onePart(new Uint8Array(0)) };

  const packer = compression.kind === 'zstd' ? compressor : undefined;
  const level = compression.kind === 'zstd' ? compression.level : 0;
  const packed = await packer?.once(first, level);
  const partBytes = partSizeBytes(sizeBytes);
  const whole = startingWith(first, chunks);
  if (packer === undefined || packed === undefined || packed.length > first.length * WORTH_RATIO) {
    const isOne = sizeBytes <= partBytes;
    const parts = isOne ? onePart(await joined(whole, sizeBytes)) : gather(whole, partBytes, buffers);
    return { compressed: false, parts };
  }
  if (first.length < sizeBytes) {
    const parts = gather(packer.stream(whole, level, sizeBytes), partBytes, buffers);
    return { compressed: true, parts };
  }
  // The generator still has to see its end, where the hash and the abort are looked at.
  await chunks.next();
  return { compressed: true, parts: onePart(packed) };
}

/** All bytes of a source of known size, in memory of that size and no more. */
async function joined(source: AsyncIterable<Uint8Array>, sizeBytes: number): Promise<Bytes> {
  const bytes = new Uint8Array(sizeBytes);
  let at = 0;
  for await (const piece of source) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

async function* startingWith(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}

/** Cuts to parts of one size. A piece need stay valid only until the next one is asked for. */
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
async function* onePart(bytes: Bytes): Parts {
  return bytes;
}

/** One that is ready and two that are being sent; meanwhile one more is filled. */
const MOST_SPARE = 3;

/**
 * The memory of parts, used again: the garbage collector sees 8 MiB as one small object, and would let some ten of them
 * pile up before it looks.
 */
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

/** Where the parts before the last go. */
export interface Outlet {
  begin(head: BodyHead): void;
  /** Resolves when the part was sent and one more may be; rejects when the job is given up. */
  part(bytes: Bytes): Promise<void>;
  /** Resolves when a part may be sent. */
  ready(): Promise<void>;
}

/** All that is given out before the proof. */
interface Given {
  readonly head: BodyHead;
  readonly isBegun: boolean;
  readonly last: Bytes;
  readonly storedBytes: number;
}

export async function giveParts(
  { compressed, parts }: Encoded,
  about: Omit<BodyHead, 'compressed'>,
  outlet: Outlet,
): Promise<Given> {
  const head = { ...about, compressed };
  let isBegun = false;
  let storedBytes = 0;
  const last = await eachPart(parts, async (part) => {
    if (!isBegun) outlet.begin(head);
    isBegun = true;
    storedBytes += part.length;
    await outlet.part(part);
  });
  return { head, isBegun, last, storedBytes: storedBytes + last.length };
}

/** The answer with the last part. To be asked for only when what was read is proven. */
export async function giveLast(
  { head, isBegun, last: bytes, storedBytes }: Given,
  about: Omit<Proof, 'storedBytes'>,
  outlet: Outlet,
): Promise<WorkerAnswer> {
  const proof = { ...about, storedBytes };
  if (isBegun) await outlet.ready();
  const whole = isBegun ? undefined : { ...head, md5: proof.md5 };
  return { kind: 'end', head: whole, bytes, proof };
}

/** Hands every part but the last to `take`, and returns the last. */
async function eachPart(parts: Parts, take: (part: Bytes) => Promise<void>): Promise<Bytes> {
  try {
    for (;;) {
      const step = await parts.next();
      if (step.done === true) return step.value;
      await take(step.value);
    }
  } finally {
    // What was given up in the middle still has a compressor at work.
    await parts.return(new Uint8Array(0));
  }
}
