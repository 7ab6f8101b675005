// Decompresses zstd frames, in bounded memory. A corrupt or truncated object always throws: the checksum and the end
// of the frame are checked.
import { pipeline } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import zlib from 'node:zlib';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { loadZstd, type Zstd } from '../native/zstd.ts';
import { NoZstdError } from './failure.ts';

const PIECE_BYTES = 256 * 2 ** 10;
/** A chunk of a forged object may hold gigabytes: after so many pieces of it, signals and timers have their turn. */
const PIECES_PER_TURN = 16;
/** ZSTD_WINDOWLOG_LIMIT_DEFAULT of zstd.h: what plain `zstd -d` accepts, a window of at most 128 MiB. */
const WINDOW_LOG_MAX = 27;
const MAGIC = 0xfd2fb528;
/** The lowest of 16 magic numbers: pzstd and the seekable format insert frames that decode to nothing. */
const SKIPPABLE_MAGIC = 0x184d2a50;
const RLE_BLOCK = 1;

/**
 * The plain bytes of one or more zstd frames, in chunks that the reader may keep. Throws if the frames are corrupt or
 * end too soon; errors of `source` are thrown unchanged.
 */
export async function* decompressStream(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const zstd = loadZstd();
  yield* zstd === undefined ? decompressWithZlib(source) : withBinding(zstd, source);
}

async function* withBinding(zstd: Zstd, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const context = new zstd.DCtx();
  context.setParameter(zstd.DParameter.windowLogMax, WINDOW_LOG_MAX);
  let isInFrame = true;
  let piece = new Uint8Array(PIECE_BYTES);
  for await (const chunk of source) {
    let at = 0;
    let pieces = 0;
    // A full output buffer may mean that zstd holds more, even if the whole chunk is consumed.
    for (let isWaiting = false; at < chunk.length || isWaiting;) {
      const [left, produced, consumed] = step(() => context.decompressStream(piece, chunk.subarray(at)));
      at += consumed;
      isInFrame = left > 0;
      isWaiting = isInFrame && produced === piece.length;
      if (produced === 0) continue;
      yield piece.subarray(0, produced);
      piece = new Uint8Array(PIECE_BYTES);
      pieces += 1;
      // oxlint-disable-next-line no-await-in-loop -- the pause
      if (pieces % PIECES_PER_TURN === 0) await setImmediate();
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

/** The part of node:zlib that newer Nodes have and the types of the oldest supported one lack. */
interface ZlibWithZstd {
  createZstdDecompress(): NodeJS.ReadWriteStream & AsyncIterable<Buffer>;
}

/**
 * With Node's own zstd (node:zlib, from 22.15 on), for machines without a binary of zstd-napi. It accepts a truncated
 * frame as whole, and drops what follows a frame. So this code finds the end of each frame itself. Throws if a frame
 * is corrupt or truncated, and {@link NoZstdError} on a Node without zstd; errors of `source` are thrown unchanged.
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
    // The stream itself throws the pipeline's error.
    yield* pipeline(frameOf(input), stream, () => undefined);
  } catch (error) {
    if (errnoOf(error)?.startsWith('ZSTD_error') !== true) throw error;
    throw new Error(`the zstd frame is corrupt: ${reasonOf(error)}`, { cause: error });
  }
}

/** The next frame, without the bytes after it. */
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

/** A source that can take back bytes of the next frame. */
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

/** The next bytes of the frame, to be read or skipped. */
interface Field {
  readonly lengthBytes: number;
  readonly isRead: boolean;
}

/**
 * Finds the end of one zstd frame without decoding it (RFC 8878, section 3.1.1), for a decompressor that does not
 * report it.
 */
export class FrameWalk {
  readonly #fields = frame();
  #field = this.#fields.next();
  #value = 0n;
  /** Bytes of the field that are consumed. */
  #at = 0;

  get isAtEnd(): boolean {
    return this.#field.done === true;
  }

  /** How many of these bytes belong to the frame. Throws if this is not a frame. */
  feed(bytes: Uint8Array): number {
    let used = 0;
    while (this.#field.done !== true && used < bytes.length) {
      const { lengthBytes, isRead } = this.#field.value;
      const taken = Math.min(lengthBytes - this.#at, bytes.length - used);
      if (isRead) {
        for (const byte of bytes.subarray(used, used + taken)) {
          this.#value |= BigInt(byte) << BigInt(8 * this.#at);
          this.#at += 1;
        }
      } else this.#at += taken;
      used += taken;
      if (this.#at < lengthBytes) break;
      this.#field = this.#fields.next(Number(this.#value));
      this.#value = 0n;
      this.#at = 0;
    }
    return used;
  }
}

/** The fields of a frame, in order; numbers are little-endian. */
function* frame(): Generator<Field, void, number> {
  const magic = yield read(4);
  if (magic - (magic % 16) === SKIPPABLE_MAGIC) return yield* skip(yield read(4));
  if (magic !== MAGIC) throw new Error('the zstd frame is corrupt: it does not begin as one');
  const descriptor = yield read(1);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const contentSizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  yield* skip((isSingleSegment ? 0 : 1) + dictionaryBytes + contentSizeBytes);
  for (let isLast = false; !isLast;) {
    const header = yield read(3);
    isLast = (header & 1) !== 0;
    yield* skip(((header >> 1) & 3) === RLE_BLOCK ? 1 : header >> 3);
  }
  yield* skip((descriptor & 4) !== 0 ? 4 : 0);
}

function read(lengthBytes: number): Field {
  return { lengthBytes, isRead: true };
}

function* skip(lengthBytes: number): Generator<Field, void, number> {
  if (lengthBytes > 0) yield { lengthBytes, isRead: false };
}
