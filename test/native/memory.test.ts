import { expect, it } from 'vitest';
import { newMemory, releaseMemory, wholeMemory } from '../../src/native/memory.ts';

const SIZE = 8 * 2 ** 20;
const PAGES = 2 * 4096; // the first and the last one are not whole

it('gives its pages back, and may be used again', () => {
  const memory = newMemory(SIZE).fill(7);
  releaseMemory(memory.subarray(100, 200));
  expect(memory.filter((byte) => byte !== 0).length).toBeLessThanOrEqual(PAGES);
  memory.fill(8);
  expect(memory.every((byte) => byte === 8)).toBe(true);
});

it('is known by any part of it', () => {
  const memory = newMemory(9).fill(7);
  expect(wholeMemory(memory.subarray(5, 7))).toEqual(memory);
});

it.each([0, 1, 4096, 5000])('of %i bytes can be emptied, too', (bytes) => {
  expect(() => releaseMemory(newMemory(bytes))).not.toThrow();
});
