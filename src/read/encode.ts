// From the bytes of a file to the parts that are stored: compressed if that is worthwhile, by the best zstd on this
// machine, and cut to one size. The last part has a type of its own: it must not be sent before the file is proven.
import { Readable } from 'node:stream';
import zlib from 'node:zlib';
import { partSizeBytes } from '../model/file/part-size.ts';
import { loadZstd, type Zstd } from '../native/zstd.ts';
import type { Buffers } from './buffers.ts';
import { chooseLevel } from './level.ts';
import type { CompressorName, JobCompression } from './reading.ts';

/**
 * Yields every part but the last, and returns the last. Each part is a buffer, and belongs to the receiver from then
 * on.
 */
export type Parts = AsyncGenerator<Uint8Array, Uint8Array>;

/**
 * Content that shrinks by less than 5 % is sent uncompressed: decompressing would cost the reader more than it saves.
 */
const WORTH_RATIO = 0.95;

/**
 * 512 KiB, the window of level 1. The window of level 3 takes 27 MiB more in zstd's own thread, and made nothing
 * measured smaller.
 */
const SMALL_WINDOW_LOG = 19;

export interface Encoded {
  readonly compressed: boolean;
  readonly parts: Parts;
}

export interface Encoding {
  readonly sizeBytes: number;
  readonly compression: JobCompression;
  /** Undefined if there is no zstd: then nothing is compressed. */
  readonly compressor: Compressor | undefined;
  readonly buffers: Buffers;
}

/** Reads the first chunk now, and the rest as the parts are requested. */
export async function encode(
  chunks: AsyncGenerator<Uint8Array, undefined>,
  { sizeBytes, compression, compressor, buffers }: Encoding,
): Promise<Encoded> {
  const first = (await chunks.next()).value;
  if (first === undefined) return { compressed: false, parts: onePart(buffers.take(0)) };

  const packed = await pack(first, compression, compressor, buffers);
  const partBytes = partSizeBytes(sizeBytes);
  const whole = startingWith(first, chunks);
  if (packed === undefined) {
    const isOne = sizeBytes <= partBytes;
    const parts = isOne
      ? onePart(await joined(whole, buffers.take(sizeBytes)))
      : gather(whole, partBytes, buffers);
    return { compressed: false, parts };
  }
  if (first.length < sizeBytes) {
    buffers.giveBack(packed.bytes);
    const link = compression.kind === 'zstd' && sizeBytes > partBytes ? compression.linkBytesPerS : undefined;
    const level =
      link === undefined
        ? packed.level
        : await chooseLevel(first.length, link, (tried) => sizeAt(packed.by, first, tried, buffers));
    const windowLog = level === packed.level ? undefined : SMALL_WINDOW_LOG;
    const parts = gather(packed.by.stream(whole, level, sizeBytes, windowLog), partBytes, buffers);
    return { compressed: true, parts };
  }
  // Let the generator reach its end, where it checks the hash and the abort.
  await chunks.next();
  return { compressed: true, parts: onePart(packed.bytes) };
}

async function sizeAt(by: Compressor, content: Uint8Array, level: number, buffers: Buffers): Promise<number> {
  const frame = await by.once(content, level, buffers);
  buffers.giveBack(frame);
  return frame.length;
}

/**
 * The bytes as one frame; undefined if they are to be stored uncompressed: that was requested, or they hardly shrink.
 */
export async function pack(
  content: Uint8Array,
  compression: JobCompression,
  compressor: Compressor | undefined,
  buffers: Buffers,
): Promise<{ readonly bytes: Uint8Array; readonly by: Compressor; readonly level: number } | undefined> {
  if (compression.kind !== 'zstd' || compressor === undefined || content.length === 0) return undefined;
  const bytes = await compressor.once(content, compression.level, buffers);
  if (bytes.length <= content.length * WORTH_RATIO)
    return { bytes, by: compressor, level: compression.level };
  buffers.giveBack(bytes);
  return undefined;
}

/** All bytes of a source of known size, in `memory` of that size. */
async function joined(source: AsyncIterable<Uint8Array>, memory: Uint8Array): Promise<Uint8Array> {
  let at = 0;
  for await (const piece of source) {
    memory.set(piece, at);
    at += piece.length;
  }
  return memory;
}

async function* startingWith(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}

/** Cuts the bytes to parts of one size. A piece need only stay valid until the next one is requested. */
export async function* gather(pieces: AsyncIterable<Uint8Array>, partBytes: number, buffers: Buffers): Parts {
  let part: Uint8Array | undefined;
  let filledBytes = 0;
  try {
    for await (const piece of pieces) {
      let at = 0;
      while (at < piece.length) {
        // Only now is it known that the full part is not the last one.
        if (part !== undefined && filledBytes === partBytes) {
          const full = part;
          part = undefined;
          yield full;
        }
        if (part === undefined) {
          part = buffers.take(partBytes);
          filledBytes = 0;
        }
        const taken = piece.subarray(at, at + partBytes - filledBytes);
        part.set(taken, filledBytes);
        filledBytes += taken.length;
        at += taken.length;
      }
    }
    const last = part ?? buffers.take(0);
    part = undefined;
    return last.subarray(0, filledBytes);
  } finally {
    if (part !== undefined) buffers.giveBack(part);
  }
}

/** A body of a single part. */
// oxlint-disable-next-line require-yield -- it has no part but the last
async function* onePart(bytes: Uint8Array): Parts {
  return bytes;
}

/** Both implementations make plain frames with content size and checksum. */
export interface Compressor {
  readonly name: Exclude<CompressorName, 'none'>;
  /** One whole frame, in a buffer of `buffers`. */
  once(bytes: Uint8Array, level: number, buffers: Buffers): Uint8Array | Promise<Uint8Array>;
  /**
   * One frame of exactly `sizeBytes` bytes of source, at least one. A piece is valid until the next one is requested.
   * A caller that stops early must call `return()`, as `for await` does. `windowLog` overrides that of the level.
   */
  stream(
    source: AsyncIterable<Uint8Array>,
    level: number,
    sizeBytes: number,
    windowLog?: number,
  ): AsyncGenerator<Uint8Array>;
}

/** zstd-napi, Node's own zstd from 22.15 on, or undefined. */
export async function loadCompressor(): Promise<Compressor | undefined> {
  const zstd = loadZstd();
  return zstd === undefined ? zlibCompressor() : new NapiCompressor(zstd);
}

let ofThread: Promise<Compressor | undefined> | undefined;

/**
 * Shared by all callers that make whole frames on this thread (`once`), because each takes a MiB. Loaded on first use.
 */
export function compressorOfThread(): Promise<Compressor | undefined> {
  return (ofThread ??= loadCompressor());
}

type Context = InstanceType<Zstd['CCtx']>;

/**
 * From this size on, zstd's own thread is worth its buffers; it needs a second core to gain time
 * (bench/parts/worker.mjs).
 */
const OVERLAP_FROM_BYTES = 8 * 2 ** 20;
const PIECE_BYTES = 256 * 2 ** 10;
const NOTHING = new Uint8Array(0);

/** Large files are compressed in zstd's own thread, while the worker reads and hashes. */
class NapiCompressor implements Compressor {
  readonly name = 'zstd-napi';
  readonly #zstd: Zstd;
  readonly #plain: Context;
  /**
   * Reused: it holds about 15 MiB outside the heap, which only the garbage collector frees, without seeing its size.
   */
  #overlapped: Context | undefined;
  readonly #piece = new Uint8Array(PIECE_BYTES);

  constructor(zstd: Zstd) {
    this.#zstd = zstd;
    this.#plain = new zstd.CCtx();
  }

  once(bytes: Uint8Array, level: number, buffers: Buffers): Uint8Array {
    const frame = buffers.take(this.#zstd.compressBound(bytes.length));
    return frame.subarray(0, this.#prepared(this.#plain, level).compress2(frame, bytes));
  }

  async *stream(
    source: AsyncIterable<Uint8Array>,
    level: number,
    sizeBytes: number,
    windowLog?: number,
  ): AsyncGenerator<Uint8Array> {
    if (sizeBytes <= OVERLAP_FROM_BYTES)
      return yield* this.#frame(this.#prepared(this.#plain, level), source, sizeBytes);
    // Taken out while it is in use: a context that was abandoned inside a frame must never be used again.
    const context = this.#prepared(this.#overlapped ?? new this.#zstd.CCtx(), level);
    this.#overlapped = undefined;
    context.setParameter(this.#zstd.CParameter.nbWorkers, 1);
    if (windowLog !== undefined) context.setParameter(this.#zstd.CParameter.windowLog, windowLog);
    try {
      yield* this.#frame(context, source, sizeBytes);
    } finally {
      this.#finish(context);
      this.#overlapped = context;
    }
  }

  async *#frame(
    context: Context,
    source: AsyncIterable<Uint8Array>,
    sizeBytes: number,
  ): AsyncGenerator<Uint8Array> {
    const { end, continue: more } = this.#zstd.EndDirective;
    context.setPledgedSrcSize(sizeBytes);
    let restBytes = sizeBytes;
    for await (const chunk of source) {
      restBytes -= chunk.length;
      const directive = restBytes === 0 ? end : more;
      let at = 0;
      for (;;) {
        const rest = chunk.subarray(at);
        const [left, produced, consumed] = context.compressStream2(this.#piece, rest, directive);
        at += consumed;
        if (produced > 0) yield this.#piece.subarray(0, produced);
        if (at === chunk.length && (restBytes > 0 || left === 0)) break;
      }
    }
  }

  #prepared(context: Context, level: number): Context {
    const { ResetDirective, CParameter } = this.#zstd;
    context.reset(ResetDirective.sessionAndParameters);
    context.setParameter(CParameter.compressionLevel, level);
    context.setParameter(CParameter.checksumFlag, 1);
    context.setParameter(CParameter.contentSizeFlag, 1);
    return context;
  }

  /**
   * Lets the thread finish its input. In zstd 1.5.7 a reset does not clear it (`jobReady` in zstdmt_compress.c stays
   * set), and the next frame would crash the whole process.
   */
  #finish(context: Context): void {
    while (context.compressStream2(this.#piece, NOTHING, this.#zstd.EndDirective.flush)[0] > 0);
  }
}

/** The part of node:zlib that newer Nodes have and the types of the oldest supported one lack. */
interface ZstdOptions {
  readonly params: Readonly<Record<number, number>>;
  readonly pledgedSrcSize: number;
}
interface ZlibWithZstd {
  readonly constants: Readonly<Record<string, number>>;
  createZstdCompress(options: ZstdOptions): NodeJS.ReadWriteStream & AsyncIterable<Buffer>;
}

/** Node's own zstd, for machines without a binary of zstd-napi. Undefined on a Node without it. */
export function zlibCompressor(): Compressor | undefined {
  if (!('createZstdCompress' in zlib)) return undefined;
  const zstd = zlib as unknown as ZlibWithZstd;
  const stream: Compressor['stream'] = (source, level, sizeBytes, windowLog) => {
    const { ZSTD_c_compressionLevel: levelKey = 0, ZSTD_c_checksumFlag: checksumKey = 0 } = zstd.constants;
    const { ZSTD_c_windowLog: windowKey = 0 } = zstd.constants;
    const window = windowLog === undefined ? {} : { [windowKey]: windowLog };
    const params = { [levelKey]: level, [checksumKey]: 1, ...window };
    return throughStream(source, zstd.createZstdCompress({ params, pledgedSrcSize: sizeBytes }));
  };
  return {
    name: 'zlib',
    stream,
    once: async (bytes, level, buffers) => {
      const pieces: Uint8Array[] = [];
      for await (const piece of stream(Readable.from([bytes]), level, bytes.length)) pieces.push(piece);
      const frame = Buffer.concat(pieces);
      const memory = buffers.take(frame.length);
      memory.set(frame);
      return memory;
    },
  };
}

async function* throughStream(
  source: AsyncIterable<Uint8Array>,
  stream: NodeJS.ReadWriteStream & AsyncIterable<Buffer>,
): AsyncGenerator<Uint8Array> {
  const feeding = feed(source, stream);
  // Emitted on the stream, so that the loop below throws it.
  feeding.catch((error: unknown) => stream.emit('error', error));
  yield* stream;
  await feeding;
}

async function feed(source: AsyncIterable<Uint8Array>, stream: NodeJS.WritableStream): Promise<void> {
  for await (const chunk of source) {
    // The chunk's memory is reused for the next one: it must be consumed first.
    await new Promise<void>((resolve, reject) => {
      stream.write(chunk, (error) => (error ? reject(error) : resolve()));
    });
  }
  stream.end();
}
