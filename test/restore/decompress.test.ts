import { randomBytes } from 'node:crypto';
import zlib from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import { decompressStream, decompressWithZlib, FrameWalk } from '../../src/restore/decompress.ts';

const plain = Buffer.concat([
  Buffer.alloc(3_000_000, 'zeros and ones '),
  randomBytes(700_000),
  Buffer.alloc(5),
]);
const frame = compress(plain, { checksumFlag: true, contentSizeFlag: true });

async function* inPieces(bytes: Uint8Array, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

async function decompressed(bytes: Uint8Array, pieceBytes = 65_536): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of decompressStream(inPieces(bytes, pieceBytes))) pieces.push(piece);
  return Buffer.concat(pieces);
}

describe('decompressing', () => {
  it.each([997, 65_536, 10_000_000])(
    'gives the bytes back, fed in pieces of %i bytes',
    async (pieceBytes) => {
      expect((await decompressed(frame, pieceBytes)).equals(plain)).toBe(true);
    },
  );

  it.each([0, 1, 262_143, 262_144, 262_145, 524_288])('gives %i bytes back', async (sizeBytes) => {
    const content = Buffer.alloc(sizeBytes, 'x');
    expect((await decompressed(compress(content))).equals(content)).toBe(true);
  });

  it('gives small pieces, however much one chunk holds', async () => {
    const sizes: number[] = [];
    for await (const piece of decompressStream(inPieces(frame, frame.length))) sizes.push(piece.length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024);
  });

  it('reads one frame after the other', async () => {
    const two = Buffer.concat([frame, compress(Buffer.from('more'))]);
    expect((await decompressed(two)).equals(Buffer.concat([plain, Buffer.from('more')]))).toBe(true);
  });

  it.each([
    ['one byte short', frame.length - 1],
    ['without its checksum', frame.length - 4],
    ['cut in the middle', 400_000],
    ['cut in its header', 3],
    ['empty', 0],
  ])('refuses a frame that is %s', async (_, lengthBytes) => {
    await expect(decompressed(frame.subarray(0, lengthBytes))).rejects.toThrow('the zstd frame is cut short');
  });

  it.each([
    ['with one wrong bit', (bytes: Buffer) => flip(bytes, 500_000)],
    ['that is none', () => Buffer.from('this is no frame')],
    ['with something after it', (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('trailing')])],
  ])('refuses a frame %s', async (_, spoil) => {
    await expect(decompressed(spoil(frame))).rejects.toThrow('the zstd frame is corrupt');
  });

  it('throws what the source throws', async () => {
    const broken = (async function* () {
      yield frame.subarray(0, 1000);
      throw new Error('connection reset');
    })();
    const reading = (async () => {
      for await (const piece of decompressStream(broken)) expect(piece.length).toBeGreaterThan(0);
    })();
    await expect(reading).rejects.toThrow(/^connection reset$/);
  });
});

describe('the walk to the end of a frame', () => {
  it.each([1, 7, 4096, 10_000_000])('ends where the frame ends, fed in pieces of %i bytes', (pieceBytes) => {
    const walk = new FrameWalk();
    const bytes = Buffer.concat([frame, Buffer.from('trailing')]);
    const seenAt: number[] = [];
    let used = 0;
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      used += walk.feed(bytes.subarray(at, at + pieceBytes));
      if (walk.isAtEnd) seenAt.push(at + pieceBytes);
    }
    expect(used).toBe(frame.length);
    expect(seenAt[0]).toBe(Math.ceil(frame.length / pieceBytes) * pieceBytes);
    expect(walk.isAtEnd).toBe(true);
  });

  it('is not at its end without the checksum', () => {
    const walk = new FrameWalk();
    walk.feed(frame.subarray(0, -4));
    expect(walk.isAtEnd).toBe(false);
  });

  it('passes over a frame that decodes to nothing', () => {
    const walk = new FrameWalk();
    expect(walk.feed(Buffer.from('\x50\x2a\x4d\x18\x03\0\0\0abcmore', 'latin1'))).toBe(11);
    expect(walk.isAtEnd).toBe(true);
  });

  it('knows frames without size or checksum, with repeated blocks, and small ones', () => {
    const contents = [
      Buffer.alloc(0),
      Buffer.alloc(1_000_000),
      Buffer.from('abc'),
      randomBytes(70_000),
      plain,
    ];
    for (const content of contents) {
      for (const flags of [{}, { contentSizeFlag: false }, { checksumFlag: true }]) {
        const bytes = compress(content, flags);
        const walk = new FrameWalk();
        expect(walk.feed(Buffer.concat([bytes, Buffer.from('more')]))).toBe(bytes.length);
      }
    }
  });

  it('refuses what does not begin as a frame', () => {
    expect(() => new FrameWalk().feed(Buffer.from('this is no frame'))).toThrow('the zstd frame is corrupt');
  });
});

describe("decompressing with Node's own zstd", () => {
  const plain = Buffer.alloc(3_000_000, 'zeros and ones ');
  const frame = compress(plain, { checksumFlag: true });

  /** What decodes to nothing, RFC 8878, section 3.1.2. */
  const skippable = Buffer.concat([Buffer.from([0x5f, 0x2a, 0x4d, 0x18, 3, 0, 0, 0]), Buffer.from('abc')]);

  async function decompressed(bytes: Uint8Array, firstBytes = 100): Promise<Buffer> {
    const source = (async function* () {
      yield bytes.subarray(0, firstBytes);
      yield bytes.subarray(firstBytes);
    })();
    const pieces: Uint8Array[] = [];
    for await (const piece of decompressWithZlib(source)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  const broken: readonly (readonly [string, Uint8Array, string])[] = [
    ['without its checksum', frame.subarray(0, -4), 'the zstd frame is cut short'],
    ['cut in the middle', frame.subarray(0, frame.length / 2), 'the zstd frame is cut short'],
    ['empty', Buffer.alloc(0), 'the zstd frame is cut short'],
    [
      'with a wrong checksum',
      Buffer.concat([frame.subarray(0, -4), Buffer.alloc(4)]),
      'the zstd frame is corrupt',
    ],
    [
      'followed by a part of one',
      Buffer.concat([frame, frame.subarray(0, 90)]),
      'the zstd frame is cut short',
    ],
    ['followed by something else', Buffer.concat([frame, Buffer.from('more')]), 'the zstd frame is corrupt'],
  ];
  const hasZstd = 'createZstdDecompress' in zlib;

  it.each(hasZstd ? broken : [['whole, where Node has no zstd', frame, 'this machine has none'] as const])(
    'refuses a frame that is %s',
    async (_, bytes, message) => {
      await expect(decompressed(bytes)).rejects.toThrow(message);
    },
  );

  it('gives the bytes back where Node has zstd, and none where it has not', async () => {
    const bytes = await decompressed(frame).catch(() => undefined);
    expect(bytes?.equals(plain)).toBe(hasZstd ? true : undefined);
  });

  it.runIf(hasZstd).each([100, frame.length - 1, frame.length, frame.length + 1])(
    'reads one frame after the other, of which the first piece has %i bytes',
    async (firstBytes) => {
      const two = await decompressed(Buffer.concat([frame, skippable, frame]), firstBytes);
      expect(two.equals(Buffer.concat([plain, plain]))).toBe(true);
    },
  );
});

function flip(bytes: Buffer, at: number): Buffer {
  const spoiled = Buffer.from(bytes);
  spoiled[at] = (spoiled[at] ?? 0) ^ 1;
  return spoiled;
}
