// zstd, with the best that this machine has: zstd-napi, Node's own from 22.15 on, or none. What comes out are
// plain frames with content size and checksum, whichever made them.
import { loadZstd } from '../native/zstd.ts';
import { napiCompressor } from './compress-napi.ts';
import { zlibCompressor } from './compress-zlib.ts';
import type { CompressorName } from './worker-messages.ts';

export interface Compressor {
  readonly name: Exclude<CompressorName, 'none'>;
  /** One whole frame, in memory of its own. */
  once(bytes: Uint8Array, level: number): Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>>;
  /**
   * One frame of exactly `sizeBytes` bytes of source, at least one. A piece is valid until the next one is
   * asked for. Whoever stops before the end must say so with `return()`, as `for await` does.
   */
  stream(source: AsyncIterable<Uint8Array>, level: number, sizeBytes: number): AsyncGenerator<Uint8Array>;
}

/** Undefined where there is no zstd at all. */
export async function loadCompressor(): Promise<Compressor | undefined> {
  const zstd = await loadZstd();
  return zstd === undefined ? zlibCompressor() : napiCompressor(zstd);
}
