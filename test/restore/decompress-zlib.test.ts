import zlib from 'node:zlib';
import { compress } from 'zstd-napi';
import { expect, it } from 'vitest';
import { decompressWithZlib } from '../../src/restore/decompress-zlib.ts';

const plain = Buffer.alloc(3_000_000, 'zeros and ones ');
const frame = compress(plain, { checksumFlag: true });

async function decompressed(bytes: Uint8Array): Promise<Buffer> {
  const source = (async function* () {
    yield bytes.subarray(0, 100);
    yield bytes.subarray(100);
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
  ['followed by another', Buffer.concat([frame, frame]), 'the zstd frame is followed by more'],
];
const hasZstd = 'createZstdDecompress' in zlib;

it.each(hasZstd ? broken : [['whole, where Node has no zstd', frame, 'this machine has no zstd'] as const])(
  'refuses a frame that is %s',
  async (_, bytes, message) => {
    await expect(decompressed(bytes)).rejects.toThrow(message);
  },
);

it('gives the bytes back where Node has zstd, and none where it has not', async () => {
  const bytes = await decompressed(frame).catch(() => undefined);
  expect(bytes?.equals(plain)).toBe(hasZstd ? true : undefined);
});
