import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Buffers } from '../../src/read/buffers.ts';
import { addressOf } from '../../src/native/libc.ts';

const USUAL = 64 * 1024;

it('gives no buffer to two users at once, and makes no more buffers than are in use at once', () => {
  const steps = fc.array(fc.record({ take: fc.boolean(), bytes: fc.integer({ min: 1, max: USUAL }) }));
  fc.assert(
    fc.property(steps, (list) => {
      const buffers = new Buffers(USUAL, 3);
      const held: Uint8Array[] = [];
      const places = new Set<bigint>();
      let most = 0;
      list.forEach(({ take, bytes }, n) => {
        if (take) {
          const taken = buffers.take(bytes).fill(n);
          expect(taken).toHaveLength(bytes);
          expect(held.map(addressOf)).not.toContain(addressOf(taken));
          places.add(addressOf(taken));
          held.push(taken);
          most = Math.max(most, held.length);
        } else {
          const done = held.splice(bytes % Math.max(1, held.length), 1);
          for (const one of done) buffers.giveBack(one.subarray(0, 1));
        }
      });
      expect(places.size).toBeLessThanOrEqual(most);
    }),
  );
});

it('serves files with larger parts, and then with smaller ones again', () => {
  const buffers = new Buffers(USUAL, 3);
  for (const bytes of [USUAL, 3 * USUAL, USUAL, 4 * USUAL]) {
    const taken = buffers.take(bytes);
    expect(taken).toHaveLength(bytes);
    buffers.giveBack(taken);
  }
});

it('holds no memory after it is emptied', () => {
  const buffers = new Buffers(USUAL, 3);
  const memory = buffers.take(USUAL).fill(7);
  buffers.giveBack(memory);
  buffers.empty();
  expect(memory.filter((byte) => byte !== 0).length).toBeLessThanOrEqual(2 * 4096);
});
