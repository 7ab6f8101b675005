// Node's own zstd (node:zlib, from 22.15 on), for machines without a binary of zstd-napi. It takes a frame that is cut
// short for a whole one, and forgets what follows a frame. So we find the end of each frame ourselves.
import { pipeline } from 'node:stream';
import zlib from 'node:zlib';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { FrameWalk } from './frame-walk.ts';
import { NoZstdError } from './failure.ts';

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
  const input = new Input(source);
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
class Input {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array | undefined;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  async next(): Promise<Uint8Array | undefined> {
    const kept = this.#rest;
    this.#rest = undefined;
    if (kept !== undefined) return kept;
    const { done, value } = await this.#chunks.next();
    return done === true ? undefined : value;
  }

  giveBack(bytes: Uint8Array): void {
    this.#rest = bytes.length === 0 ? undefined : bytes;
  }

  async hasMore(): Promise<boolean> {
    const found = await this.next();
    if (found !== undefined) this.giveBack(found);
    return found !== undefined;
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }
}
