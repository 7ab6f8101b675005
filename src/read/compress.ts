// zstd, with the best that this machine has: zstd-napi, Node's own from 22.15 on, or none. What comes out are
// plain frames with content size and checksum, whichever made them.
import { loadZstd } from '../native/zstd.ts';
import { napiCompressor } from './compress-napi.ts';
import { zlibCompressor } from './compress-zlib.ts';
import type { Compressor } from './compressor.ts';

/** Undefined where there is no zstd at all. */
export async function loadCompressor(): Promise<Compressor | undefined> {
  const zstd = await loadZstd();
  return zstd === undefined ? zlibCompressor() : napiCompressor(zstd);
}
