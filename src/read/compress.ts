// zstd, with the best that this machine has: zstd-napi, Node's own from 22.15 on, or none. What comes out are
// plain frames with content size and checksum, whichever made them.
import { Readable } from 'node:stream';
import zlib from 'node:zlib';
import { loadZstd, type Zstd } from '../native/zstd.ts';
import type { CompressorName } from './reading.ts';

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

type Context = InstanceType<Zstd['CCtx']>;

/** From this size on a thread of zstd's own is worth its buffers; what it gains needs a second core (bench/worker.mjs). */
const OVERLAP_FROM_BYTES = 8 * 2 ** 20;
const PIECE_BYTES = 256 * 2 ** 10;
const NOTHING = new Uint8Array(0);

/** Large files are compressed on a thread of zstd's own, while the worker reads and hashes. */
function napiCompressor(zstd: Zstd): Compressor {
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

  return {
    name: 'zstd-napi',
    once: (bytes, level) => {
      const boundBytes = zstd.compressBound(bytes.length);
      if (scratch.length < boundBytes) scratch = new Uint8Array(boundBytes);
      return scratch.slice(0, prepare(plain, level).compress2(scratch, bytes));
    },
    stream: async function* (source, level, sizeBytes) {
      const directives = zstd.EndDirective;
      if (sizeBytes <= OVERLAP_FROM_BYTES)
        return yield* frame({ context: prepare(plain, level), directives, piece }, source, sizeBytes);
      // Nobody's while it is in use: one that was left in the middle of a frame must never be used again.
      const context = prepare(overlapped ?? new zstd.CCtx(), level);
      overlapped = undefined;
      context.setParameter(zstd.CParameter.nbWorkers, 1);
      try {
        yield* frame({ context, directives, piece }, source, sizeBytes);
      } finally {
        settle(context);
        overlapped = context;
      }
    },
  };
}

/** `piece`: the memory of what comes out. */
async function* frame(
  {
    context,
    directives,
    piece,
  }: { readonly context: Context; readonly directives: Zstd['EndDirective']; readonly piece: Uint8Array },
  source: AsyncIterable<Uint8Array>,
  sizeBytes: number,
): AsyncGenerator<Uint8Array> {
  context.setPledgedSrcSize(sizeBytes);
  let restBytes = sizeBytes;
  for await (const chunk of source) {
    restBytes -= chunk.length;
    const directive = restBytes === 0 ? directives.end : directives.continue;
    let at = 0;
    for (;;) {
      const [left, produced, consumed] = context.compressStream2(piece, chunk.subarray(at), directive);
      at += consumed;
      if (produced > 0) yield piece.subarray(0, produced);
      if (at === chunk.length && (restBytes > 0 || left === 0)) break;
    }
  }
}

/** What newer Nodes have and the types of the oldest supported one do not. */
interface ZstdOptions {
  readonly params: Readonly<Record<number, number>>;
  readonly pledgedSrcSize: number;
}
interface ZlibWithZstd {
  readonly constants: Readonly<Record<string, number>>;
  createZstdCompress(options: ZstdOptions): NodeJS.ReadWriteStream & AsyncIterable<Buffer>;
}

/** Node's own, for machines without a binary of zstd-napi. Undefined on a Node without it. */
export function zlibCompressor(): Compressor | undefined {
  if (!('createZstdCompress' in zlib)) return undefined;
  const zstd = zlib as unknown as ZlibWithZstd;
  const stream: Compressor['stream'] = (source, level, sizeBytes) => {
    const { ZSTD_c_compressionLevel: levelKey = 0, ZSTD_c_checksumFlag: checksumKey = 0 } = zstd.constants;
    const params = { [levelKey]: level, [checksumKey]: 1 };
    return throughStream(source, zstd.createZstdCompress({ params, pledgedSrcSize: sizeBytes }));
  };
  return {
    name: 'zlib',
    stream,
    once: async (bytes, level) => {
      const pieces: Uint8Array[] = [];
      for await (const piece of stream(Readable.from([bytes]), level, bytes.length)) pieces.push(piece);
      return new Uint8Array(Buffer.concat(pieces));
    },
  };
}

async function* throughStream(
  source: AsyncIterable<Uint8Array>,
  stream: NodeJS.ReadWriteStream & AsyncIterable<Buffer>,
): AsyncGenerator<Uint8Array> {
  const feeding = feed(source, stream);
  // Told to the stream, so that it comes out of the loop below.
  feeding.catch((error: unknown) => stream.emit('error', error));
  yield* stream;
  await feeding;
}

async function feed(source: AsyncIterable<Uint8Array>, stream: NodeJS.WritableStream): Promise<void> {
  for await (const chunk of source) {
    // The chunk's memory is used again for the next one: it must be consumed first.
    await new Promise<void>((resolve, reject) => {
      stream.write(chunk, (error) => (error ? reject(error) : resolve()));
    });
  }
  stream.end();
}
