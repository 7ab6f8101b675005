// zstd through zstd-napi: the compressor of every worker that can have it. Large files are compressed on a
// thread of zstd's own, while the worker reads and hashes.
import type { Zstd } from '../native/zstd.ts';
import type { Compressor } from './compressor.ts';

type Context = InstanceType<Zstd['CCtx']>;

/** From this size on the thread is worth its buffers; what it gains needs a second core (bench/worker.mjs). */
const OVERLAP_FROM_BYTES = 8 * 2 ** 20;
const PIECE_BYTES = 256 * 2 ** 10;
const NOTHING = new Uint8Array(0);

export function napiCompressor(zstd: Zstd): Compressor {
  const plain = new zstd.CCtx();
  // Used again: it holds some 15 MiB, which only the garbage collector frees, and that does not see its size.
  let overlapped: Context | undefined;
  let scratch = new Uint8Array(0);
  const piece = new Uint8Array(PIECE_BYTES);

  const prepare = (context: Context, level: number): Context => {
    context.reset(zstd.ResetDirective.sessionAndParameters);
    context.setParameter(zstd.CParameter.compressionLevel, level);
    context.setParameter(zstd.CParameter.checksumFlag, 1);
    context.setParameter(zstd.CParameter.contentSizeFlag, 1);
    return context;
  };

  /**
   * Lets the thread finish what it was given. zstd 1.5.7 forgets none of it at a reset (`jobReady` in
   * zstdmt_compress.c stays set), and the next frame would take the whole process down.
   */
  const settle = (context: Context): void => {
    while (context.compressStream2(piece, NOTHING, zstd.EndDirective.flush)[0] > 0);
  };

  async function* frame(source: AsyncIterable<Uint8Array>, context: Context, sizeBytes: number) {
    context.setPledgedSrcSize(sizeBytes);
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
  }

  return {
    name: 'zstd-napi',
    once: (bytes, level) => {
      const boundBytes = zstd.compressBound(bytes.length);
      if (scratch.length < boundBytes) scratch = new Uint8Array(boundBytes);
      return scratch.slice(0, prepare(plain, level).compress2(scratch, bytes));
    },
    stream: async function* (source, level, sizeBytes) {
      if (sizeBytes <= OVERLAP_FROM_BYTES) return yield* frame(source, prepare(plain, level), sizeBytes);
      // Nobody's while it is in use: one that was left in the middle of a frame must never be used again.
      const context = prepare(overlapped ?? new zstd.CCtx(), level);
      overlapped = undefined;
      context.setParameter(zstd.CParameter.nbWorkers, 1);
      try {
        yield* frame(source, context, sizeBytes);
      } finally {
        settle(context);
        overlapped = context;
      }
    },
  };
}
