// Node's own zstd (node:zlib, from 22.15 on): for machines without a binary of zstd-napi.
import { Readable } from 'node:stream';
import zlib from 'node:zlib';
import type { Compressor } from './compressor.ts';

/** What newer Nodes have and the types of the oldest supported one do not. */
interface ZstdOptions {
  readonly params: Readonly<Record<number, number>>;
  readonly pledgedSrcSize: number;
}
interface ZlibWithZstd {
  readonly constants: Readonly<Record<string, number>>;
  createZstdCompress(options: ZstdOptions): NodeJS.ReadWriteStream & AsyncIterable<Buffer>;
}

/** Undefined on a Node without it. */
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
