import zlib from 'node:zlib';
import { compress } from 'zstd-napi';
import { describe, expect, it } from 'vitest';
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

const spoiled: readonly [string, Uint8Array, string][] = [
  ['without its checksum', frame.subarray(0, -4), 'the zstd frame is cut short'],
  ['cut in the middle', frame.subarray(0, frame.length / 2), 'the zstd frame is cut short'],
  ['empty', Buffer.alloc(0), 'the zstd frame is cut short'],
  [
    'with a wrong checksum',
    Buffer.concat([frame.subarray(0, -1), Buffer.of(0, 1)]).subarray(0, -1),
    'corrupt',
  ],
  ['followed by another', Buffer.concat([frame, frame]), 'the zstd frame is followed by more'],
];

describe.runIf('createZstdDecompress' in zlib)("with Node's own zstd", () => {
  it('gives the bytes back', async () => {
    expect((await decompressed(frame)).equals(plain)).toBe(true);
  });

  it.each(spoiled)('refuses a frame that is %s', async (_, bytes, message) => {
    await expect(decompressed(bytes)).rejects.toThrow(message);
  });
});

describe.runIf(!('createZstdDecompress' in zlib))('on a Node without zstd', () => {
  it('says what is missing', async () => {
    await expect(decompressed(frame)).rejects.toThrow('this machine has no zstd');
  });
});
