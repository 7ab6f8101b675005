import { describe, expect, it } from 'vitest';
import { decompress } from 'zstd-napi';
import { getFrameContentSize } from 'zstd-napi/binding.js';
import { partSizeBytes } from '../../src/model/file/part-size.ts';
import { Buffers } from '../../src/read/buffers.ts';
import { encode, gather, loadCompressor, zlibCompressor, type Compressor } from '../../src/read/encode.ts';
import { collect, compressible, incompressible, MiB, numbers, ZSTD } from './read-all.ts';

/** A source as a worker has it: one memory for all chunks. */
async function* chunksOf(content: Buffer): AsyncGenerator<Uint8Array, undefined> {
  const memory = new Uint8Array(MiB);
  for (let at = 0; at < content.length; at += memory.length) {
    yield memory.subarray(0, content.copy(memory, 0, at));
  }
}

/** What a worker does with a piece before it asks for the next. */
async function* copied(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const piece of pieces) yield Buffer.from(piece);
}

const buffers = new Buffers(MiB, 3);
const compressors = [await loadCompressor(), zlibCompressor()].filter((found) => found !== undefined);

describe.each(compressors.map((compressor): [string, Compressor] => [compressor.name, compressor]))(
  'compressing with %s',
  (_, compressor) => {
    it.each([MiB + 1, 8 * MiB, 8 * MiB + 1, 20 * MiB])(
      'makes one frame of %i bytes, piece by piece',
      async (size) => {
        const content = compressible(size);
        const frame = await collect(copied(compressor.stream(chunksOf(content), 1, size)));
        expect(getFrameContentSize(frame)).toBe(size);
        expect((frame[4] ?? 0) & 4, 'checksum flag of the frame header').toBe(4);
        expect(decompress(frame).equals(content)).toBe(true);
      },
    );

    it('makes one frame of a small file at once', async () => {
      const content = compressible(70_000);
      const frame = await compressor.once(content, 3, buffers);
      expect(getFrameContentSize(frame)).toBe(70_000);
      expect(decompress(frame).equals(content)).toBe(true);
    });

    it('uses the requested level', async () => {
      const text = Buffer.from(Array.from({ length: 30_000 }, (__, n) => `${n * n} `).join(''));
      const [fast, thorough] = [
        await compressor.once(text, 1, buffers),
        await compressor.once(text, 19, buffers),
      ];
      expect(thorough.length).toBeLessThan(fast.length);
    });

    it('starts afresh after a file that was abandoned in the middle', async () => {
      const content = compressible(20 * MiB);
      const stream = () => compressor.stream(chunksOf(content), 1, content.length);
      for (let pieces = 1; pieces <= 4; pieces += 1) {
        const givenUp = stream();
        for (let n = 0; n < pieces; n += 1) await givenUp.next();
        await givenUp.return(undefined);
        expect(decompress(await collect(copied(stream()))).equals(content)).toBe(true);
      }
    });

    it('throws what the source throws', async () => {
      const source = (async function* () {
        yield compressible(MiB);
        throw new Error('moved');
      })();
      await expect(collect(compressor.stream(source, 1, 3 * MiB))).rejects.toThrow(/^moved$/);
    });
  },
);

it('prefers zstd-napi', async () => {
  expect((await loadCompressor())?.name).toBe('zstd-napi');
});

describe.each(compressors.map((compressor): [string, Compressor] => [compressor.name, compressor]))(
  'a level by the rate of the link, with %s',
  (_, compressor) => {
    const large = numbers(20 * MiB);

    async function stored(content: Buffer, linkBytesPerS: number | undefined): Promise<Buffer> {
      const { parts } = await encode(chunksOf(content), {
        sizeBytes: content.length,
        compression: { ...ZSTD, linkBytesPerS },
        compressor,
        buffers: new Buffers(8 * MiB, 3),
      });
      const all: Uint8Array[] = [];
      for (;;) {
        const { done, value } = await parts.next();
        all.push(Buffer.from(value));
        if (done === true) return Buffer.concat(all);
      }
    }

    it('stores less over a slow link, in the window of level 1', async () => {
      const [usual, less] = [await stored(large, undefined), await stored(large, 1)];
      expect(less.length * 1.2).toBeLessThan(usual.length);
      expect(decompress(less).equals(large)).toBe(true);
      // RFC 8878, 3.1.1.1.2: the exponent of the window's size stands above the lowest three bits.
      expect(2 ** (10 + ((less[5] ?? 0) >> 3))).toBe(512 * 1024);
    });

    it('stores the same as before over a fast one', async () => {
      expect((await stored(large, 1e15)).equals(await stored(large, undefined))).toBe(true);
    });

    it('uses one level for all files of one part', async () => {
      const small = large.subarray(0, 8 * MiB);
      expect((await stored(small, 1)).equals(await stored(small, undefined))).toBe(true);
    });
  },
);

it('sends files uncompressed if there is no zstd at all', async () => {
  const content = compressible(2 * MiB);
  const encoded = await encode(chunksOf(content), {
    sizeBytes: content.length,
    compression: ZSTD,
    compressor: undefined,
    buffers: new Buffers(8 * MiB, 3),
  });
  const { value } = await encoded.parts.next();
  expect(encoded).toMatchObject({ compressed: false });
  expect(content.equals(value)).toBe(true);
});

it.each([
  [4, false],
  [6, true],
])('is worth it if it saves %i %%: %s', async (percent, isCompressed) => {
  const sizeBytes = 500_000;
  const emptyBytes = (sizeBytes * percent) / 100;
  const content = Buffer.concat([Buffer.alloc(emptyBytes), incompressible(sizeBytes - emptyBytes)]);
  const compressor = await loadCompressor();
  const encoding = { sizeBytes, compression: ZSTD, compressor, buffers: new Buffers(8 * MiB, 3) };
  expect((await encode(chunksOf(content), encoding)).compressed).toBe(isCompressed);
});

it.each([
  [0, 8 * MiB],
  [64 * 1024 * MiB, 8 * MiB],
  [72_000 * MiB, 8 * MiB],
  [72_000 * MiB + 1, 9 * MiB],
  [5 * 1024 ** 2 * MiB, 583 * MiB],
])('cuts a file of %i bytes into parts of %i, so that 10,000 parts are enough', (sizeBytes, partBytes) => {
  expect(partSizeBytes(sizeBytes)).toBe(partBytes);
  expect(sizeBytes / partBytes).toBeLessThanOrEqual(9000);
});

it.each([
  ['nothing', [], []],
  ['less than a part', [3], [3]],
  ['one part', [4, 4], [8]],
  ['one byte more', [4, 5], [8, 1]],
  ['pieces larger than parts', [20], [8, 8, 4]],
  ['two parts in small pieces', [5, 5, 5, 1], [8, 8]],
])('gathers %s', async (_, pieceSizes, partSizes) => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, n) => n));
  let at = 0;
  const pieces = (async function* () {
    for (const size of pieceSizes) yield bytes.subarray(at, (at += size));
  })();
  const parts = gather(pieces, 8, new Buffers(8 * MiB, 3));
  const out: Uint8Array[] = [];
  for (let step = await parts.next(); ; step = await parts.next()) {
    out.push(step.value);
    if (step.done === true) break;
  }
  expect(out.map((part) => part.length)).toEqual(partSizes.length === 0 ? [0] : partSizes);
  expect(Buffer.concat(out).equals(bytes.subarray(0, at))).toBe(true);
});

it('does not give out the last part before all of its bytes are there', async () => {
  let isOver = false;
  const pieces = (async function* () {
    yield Buffer.alloc(8);
    isOver = true;
  })();
  const step = await gather(pieces, 8, new Buffers(8 * MiB, 3)).next();
  expect(step.done).toBe(true);
  expect(isOver).toBe(true);
});
