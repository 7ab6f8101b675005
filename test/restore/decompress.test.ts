import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import { decompressStream } from '../../src/restore/decompress.ts';

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

function flip(bytes: Buffer, at: number): Buffer {
  const spoiled = Buffer.from(bytes);
  spoiled[at] = (spoiled[at] ?? 0) ^ 1;
  return spoiled;
}
