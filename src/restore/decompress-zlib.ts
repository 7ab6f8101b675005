// Node's own zstd (node:zlib, from 22.15 on), for machines without a binary of zstd-napi. It takes a frame that is cut
// short for a whole one, and forgets what follows a frame. So we find the end of each frame ourselves.
import { pipeline } from 'node:stream';
import zlib from 'node:zlib';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { FrameWalk } from './frame-walk.ts';
import { NoZstdError } from './plain.ts';

/** What newer Nodes have and the types of the oldest supported one do not. */
interface ZlibWithZstd {
  createZstdDecompress(): NodeJS.ReadWriteStream & AsyncIterable<Buffer>;
}

/**
 * The plain bytes of one or more zstd frames. Throws when one is corrupt or cut short, {@link NoZstdError} on a
 * Node without zstd, and what `source` throws, unchanged.
 */
export async function* decompressWithZlib(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (!('createZstdDecompress' in zlib)) throw new NoZstdError();
  const zstd = zlib as unknown as ZlibWithZstd;
  const input = openInput(source);
  try {
    // oxlint-disable-next-line no-await-in-loop -- one frame after the other
    do yield* decompressed(input, zstd.createZstdDecompress());
    while (await input.hasMore());
  } finally {
    await input.close();
  }
}

async function* decompressed(
  input: Input,
  stream: ReturnType<ZlibWithZstd['createZstdDecompress']>,
): AsyncGenerator<Uint8Array> {
  try {
    // The stream itself throws what the pipeline reports.
    yield* pipeline(frameOf(input), stream, () => undefined);
  } catch (error) {
    if (errnoOf(error)?.startsWith('ZSTD_error') !== true) throw error;
    throw new Error(`the zstd frame is corrupt: ${reasonOf(error)}`, { cause: error });
  }
}

/** The next frame, and nothing of what follows it. */
async function* frameOf(input: Input): AsyncGenerator<Uint8Array> {
  const walk = new FrameWalk();
  while (!walk.isAtEnd) {
    // oxlint-disable-next-line no-await-in-loop -- in the order of the frame
    const chunk = await input.next();
    if (chunk === undefined) throw new Error('the zstd frame is cut short');
    const usedBytes = walk.feed(chunk);
    input.giveBack(chunk.subarray(usedBytes));
    yield chunk.subarray(0, usedBytes);
  }
}

/** A source that takes back what belongs to the next frame. */
interface Input {
  next(): Promise<Uint8Array | undefined>;
  giveBack(rest: Uint8Array): void;
  hasMore(): Promise<boolean>;
  close(): Promise<void>;
}

function openInput(source: AsyncIterable<Uint8Array>): Input {
  const chunks = source[Symbol.asyncIterator]();
  let rest: Uint8Array | undefined;
  const next = async (): Promise<Uint8Array | undefined> => {
    const kept = rest;
    rest = undefined;
    if (kept !== undefined) return kept;
    const { done, value } = await chunks.next();
    return done === true ? undefined : value;
  };
  const giveBack = (bytes: Uint8Array): void => {
    rest = bytes.length === 0 ? undefined : bytes;
  };
  const hasMore = async (): Promise<boolean> => {
    const found = await next();
    if (found !== undefined) giveBack(found);
    return found !== undefined;
  };
  return { next, giveBack, hasMore, close: async () => void (await chunks.return?.()) };
}
