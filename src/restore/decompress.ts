// Turns zstd frames back into the bytes of the file, in bounded memory. A broken or shortened object always throws:
// the checksum and the end of the frame are looked at.
import { reasonOf } from '../model/errors.ts';
import { loadZstd, type Zstd } from '../native/zstd.ts';
import { decompressWithZlib } from './decompress-zlib.ts';

const PIECE_BYTES = 256 * 2 ** 10;
/** ZSTD_WINDOWLOG_LIMIT_DEFAULT of zstd.h: what plain `zstd -d` accepts, 128 MiB of window at most. */
const WINDOW_LOG_MAX = 27;

/**
 * The plain bytes of one or more zstd frames, in pieces that are the reader's own. Throws when the frames are
 * corrupt or end too soon, and what `source` throws, unchanged.
 */
export async function* decompressStream(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const zstd = await loadZstd();
  yield* zstd === undefined ? decompressWithZlib(source) : withBinding(zstd, source);
}

async function* withBinding(zstd: Zstd, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const context = new zstd.DCtx();
  context.setParameter(zstd.DParameter.windowLogMax, WINDOW_LOG_MAX);
  let isInFrame = true;
  let piece = new Uint8Array(PIECE_BYTES);
  for await (const chunk of source) {
    let at = 0;
    // A full piece may mean that more is waiting inside zstd, also when all of the chunk is consumed.
    for (let isWaiting = false; at < chunk.length || isWaiting;) {
      const [left, produced, consumed] = step(() => context.decompressStream(piece, chunk.subarray(at)));
      at += consumed;
      isInFrame = left > 0;
      isWaiting = isInFrame && produced === piece.length;
      if (produced === 0) continue;
      yield piece.subarray(0, produced);
      piece = new Uint8Array(PIECE_BYTES);
    }
  }
  if (isInFrame) throw new Error('the zstd frame is cut short');
}

function step<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw new Error(`the zstd frame is corrupt: ${reasonOf(error)}`, { cause: error });
  }
}
