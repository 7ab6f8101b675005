// Node's own zstd (node:zlib, from 22.15 on), for machines without a binary of zstd-napi. It takes a frame
// that is cut short for a whole one, so the frame's end is found beside it.
import { pipeline } from 'node:stream';
import zlib from 'node:zlib';
import { errnoOf, reasonOf } from '../core/errors.ts';
import { openFrameWalk } from './frame-walk.ts';

/** What newer Nodes have and the types of the oldest supported one do not. */
interface ZlibWithZstd {
  createZstdDecompress(): NodeJS.ReadWriteStream & AsyncIterable<Buffer>;
}

/** The plain bytes of one zstd frame. Throws when it is corrupt, cut short, or followed by anything. */
export async function* decompressWithZlib(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (!('createZstdDecompress' in zlib)) {
    throw new Error('this machine has no zstd: neither zstd-napi nor a Node.js from 22.15 on');
  }
  const stream = (zlib as unknown as ZlibWithZstd).createZstdDecompress();
  try {
    // The stream itself throws what the pipeline reports.
    yield* pipeline(walked(source), stream, () => undefined);
  } catch (error) {
    if (errnoOf(error)?.startsWith('ZSTD_error') !== true) throw error;
    throw new Error(`the zstd frame is corrupt: ${reasonOf(error)}`, { cause: error });
  }
}

async function* walked(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const walk = openFrameWalk();
  for await (const chunk of source) {
    if (walk.feed(chunk) < chunk.length)
      throw new Error('the zstd frame is followed by more: zstd-napi is needed');
    yield chunk;
  }
  if (!walk.isAtEnd()) throw new Error('the zstd frame is cut short');
}
