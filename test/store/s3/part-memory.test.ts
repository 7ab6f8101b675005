// The memory of parts is freed when their bytes were sent and the next part was made, and never earlier.
import { describe, expect, it } from 'vitest';
import { PartMemory } from '../../../src/store/s3/part-memory.ts';

const newPart = (): Uint8Array => new Uint8Array(2 ** 20);
const isFree = (part: Uint8Array): boolean => part.buffer.byteLength === 0;

describe('the memory of a part', () => {
  it.each([
    ['sent, then followed', ['ends', 'next']],
    ['followed, then sent', ['next', 'ends']],
  ] as const)('is freed when it was %s, not before', (_, steps) => {
    const memory = new PartMemory();
    const part = newPart();
    const next = newPart();
    memory.begins(1, part);
    for (const step of steps) {
      expect(isFree(part)).toBe(false);
      if (step === 'ends') memory.ends(1);
      else memory.begins(2, next);
    }
    expect(isFree(part)).toBe(true);
    expect(isFree(next)).toBe(false);
  });

  it('is freed when its request begins after that of the next one', () => {
    const memory = new PartMemory();
    const part = newPart();
    memory.begins(2, newPart());
    memory.begins(1, part);
    memory.ends(1);
    expect(isFree(part)).toBe(true);
  });

  it('stays when two parts share it', () => {
    const memory = new PartMemory();
    const both = newPart();
    memory.begins(1, both.subarray(0, 10));
    memory.ends(1);
    memory.begins(2, both.subarray(10));
    memory.ends(2);
    memory.begins(3, newPart());
    expect(isFree(both)).toBe(false);
  });

  it('stays when it is a slice of a small pool', () => {
    const memory = new PartMemory();
    const last = Buffer.from('a few bytes');
    memory.begins(1, last);
    memory.ends(1);
    memory.begins(2, newPart());
    expect(last.toString()).toBe('a few bytes');
  });
});
