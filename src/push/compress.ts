// zstd, with the best that this machine has: zstd-napi, Node's own from 22.15 on, or none. What comes out are
// plain frames with content size and checksum, whichever made them.
import { loadZstd, type Zstd } from '../native/zstd.ts';
import { zlibCompressor } from './compress-zlib.ts';
import type { CompressorName } from './lane-messages.ts';

export interface Compressor {
  readonly name: Exclude<CompressorName, 'none'>;
  /** One whole frame, in memory of its own. */
  once(bytes: Uint8Array, level: number): Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>>;
  /** One frame of exactly `sizeBytes` bytes of source. A piece is valid until the next one is asked for. */
  stream(source: AsyncIterable<Uint8Array>, level: number, sizeBytes: number): AsyncIterable<Uint8Array>;
}

/**
 * From this size on zstd works on a thread of its own while ours reads and hashes: as fast as zstd alone
 * (bench/lane.mjs). Smaller files are not worth its buffers.
 */
const OVERLAP_FROM_BYTES = 8 * 2 ** 20;
const PIECE_BYTES = 256 * 2 ** 10;

/** Undefined where there is no zstd at all. */
export async function loadCompressor(): Promise<Compressor | undefined> {
  const zstd = await loadZstd();
  return zstd === undefined ? zlibCompressor() : napiCompressor(zstd);
}

function napiCompressor(zstd: Zstd): Compressor {
  const plain = new zstd.CCtx();
  // Made on first use and kept: a context is freed by the garbage collector only, which does not see its size.
  let overlapped: InstanceType<Zstd['CCtx']> | undefined;
  let scratch = new Uint8Array(0);

  const prepare = (context: InstanceType<Zstd['CCtx']>, level: number): void => {
    context.reset(zstd.ResetDirective.sessionAndParameters);
    context.setParameter(zstd.CParameter.compressionLevel, level);
    context.setParameter(zstd.CParameter.checksumFlag, 1);
    context.setParameter(zstd.CParameter.contentSizeFlag, 1);
  };

  return {
    name: 'zstd-napi',
    once: (bytes, level) => {
      const boundBytes = zstd.compressBound(bytes.length);
      if (scratch.length < boundBytes) scratch = new Uint8Array(boundBytes);
      prepare(plain, level);
      return scratch.slice(0, plain.compress2(scratch, bytes));
    },
    stream: async function* (source, level, sizeBytes) {
      let context = plain;
      if (sizeBytes > OVERLAP_FROM_BYTES) context = overlapped ??= new zstd.CCtx();
      prepare(context, level);
      if (context === overlapped) context.setParameter(zstd.CParameter.nbWorkers, 1);
      context.setPledgedSrcSize(sizeBytes);
      const piece = new Uint8Array(PIECE_BYTES);
      let restBytes = sizeBytes;
      for await (const chunk of source) {
        restBytes -= chunk.length;
        const directive = restBytes === 0 ? zstd.EndDirective.end : zstd.EndDirective.continue;
        let at = 0;
        for (;;) {
          const [left, produced, consumed] = context.compressStream2(piece, chunk.subarray(at), directive);
          at += consumed;
          if (produced > 0) yield piece.subarray(0, produced);
          if (at === chunk.length && (restBytes > 0 || left === 0)) break;
        }
      }
    },
  };
}
