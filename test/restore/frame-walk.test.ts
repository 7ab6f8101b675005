import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import { FrameWalk } from '../../src/restore/decompress.ts';

const plain = Buffer.concat([
  Buffer.alloc(3_000_000, 'zeros and ones '),
  randomBytes(700_000),
  Buffer.alloc(5),
]);
const frame = compress(plain, { checksumFlag: true, contentSizeFlag: true });

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
