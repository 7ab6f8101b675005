import zlib from 'node:zlib';
import { expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import { decompressWithZlib } from '../../src/restore/decompress.ts';

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
  ['followed by a part of one', Buffer.concat([frame, frame.subarray(0, 90)]), 'the zstd frame is cut short'],
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
