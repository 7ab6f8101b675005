// From the bytes of a file to the parts that are stored: decides whether compression is worth it, by the
// first chunk. Never decides by a file's name.
import type { Compression } from '../model/format/settings.ts';
import type { Compressor } from './compressor.ts';
import type { PartBuffers } from './part-buffers.ts';
import { gather, onePart, partSizeBytes, type Parts } from './parts.ts';
import type { Bytes } from './reading.ts';

/** What gains less than 5 % is sent as it is: it would cost the reader more than it saves. */
const WORTH_RATIO = 0.95;

export interface Encoded {
  readonly compressed: boolean;
  /** Stored size, estimated by the first chunk; exact when that is the whole file. */
  readonly sizeHintBytes: number;
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
  if (first === undefined) return { compressed: false, sizeHintBytes: 0, parts: onePart(new Uint8Array(0)) };

  const packer = compression.kind === 'zstd' ? compressor : undefined;
  const level = compression.kind === 'zstd' ? compression.level : 0;
  const packed = await packer?.once(first, level);
  const compressed = packed !== undefined && packed.length <= first.length * WORTH_RATIO;
  const stored = compressed ? packed : first;
  if (first.length === sizeBytes) {
    // The generator still has to see its end, where the hash and the abort are looked at.
    await chunks.next();
    return { compressed, sizeHintBytes: stored.length, parts: onePart(compressed ? packed : copyOf(first)) };
  }
  const whole = startingWith(first, chunks);
  return {
    compressed,
    sizeHintBytes: Math.ceil((sizeBytes / first.length) * stored.length),
    parts: gather(
      compressed && packer !== undefined ? packer.stream(whole, level, sizeBytes) : whole,
      partSizeBytes(sizeBytes),
      buffers,
    ),
  };
}

/** In memory of its own, whatever `bytes` is a view of (a Buffer's `slice` would be one more view). */
function copyOf(bytes: Uint8Array): Bytes {
  return new Uint8Array(bytes);
}

async function* startingWith(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}
