import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bestLevel, storedBytesPerS, type MeasuredLevel } from '../../src/model/compression-level.ts';

const MiB = 2 ** 20;

function tried(level: number, ratio: number, mibPerS: number): MeasuredLevel {
  return { level, ratio, bytesPerS: mibPerS * MiB };
}

/** As measured: ratio, and MiB of one core in a second. */
const FLOAT64 = [tried(1, 0.749, 429), tried(2, 0.507, 315), tried(3, 0.451, 188)] as const;
const TEXT = [tried(1, 0.267, 415), tried(2, 0.283, 369), tried(3, 0.288, 244)] as const;

function best([least, ...others]: readonly [MeasuredLevel, ...MeasuredLevel[]], linkMibPerS: number): number {
  return bestLevel(least, others, linkMibPerS * MiB).level;
}

describe('numbers, which a higher level makes much smaller', () => {
  it.each([
    ['a slow link', 20, 3],
    ['a link that level 3 cannot fill', 100, 2],
    ['a link that level 1 nearly fills', 280, 1],
    ['no link to wait for', 10_000, 1],
  ])('over %s of %i MiB/s get level %i', (_, linkMibPerS, level) => {
    expect(best(FLOAT64, linkMibPerS)).toBe(level);
  });
});

it('text, which a higher level makes larger, stays at level 1 over any link', () => {
  for (const linkMibPerS of [0.01, 1, 10, 50, 200, 5000]) expect(best(TEXT, linkMibPerS)).toBe(1);
});

it('a level that saves exactly enough is chosen over any slow link, however the numbers are rounded', () => {
  const least = { level: 1, ratio: 6 / 997, bytesPerS: 174_156_700 };
  const other = { level: 3, ratio: 5 / 997, bytesPerS: 935_130_186 };
  for (const linkBytesPerS of [790_524, 921_418, 544_247_066])
    expect(bestLevel(least, [other], linkBytesPerS)).toBe(other);
});

describe('whatever the levels did', () => {
  const level = fc.record({
    level: fc.integer({ min: 2, max: 19 }),
    bytesPerS: fc.integer({ min: 1, max: 10 ** 9 }),
    ratio: fc.integer({ min: 1, max: 1100 }).map((n) => n / 997),
  });
  const levels = fc.tuple(level, fc.array(level, { maxLength: 6 }));
  const link = fc.integer({ min: 1, max: 10 ** 10 });

  it('the file is never stored later than with the least level, and another one gains at least a fifth', () => {
    fc.assert(
      fc.property(levels, link, ([least, others], linkBytesPerS) => {
        const chosen = bestLevel(least, others, linkBytesPerS);
        const gain = storedBytesPerS(chosen, linkBytesPerS) / storedBytesPerS(least, linkBytesPerS);
        expect(gain).toBeGreaterThanOrEqual(chosen === least ? 1 : 1.2 * (1 - 1e-9));
      }),
    );
  });

  it('a slower link never stores more', () => {
    fc.assert(
      fc.property(levels, link, link, ([least, others], a, b) => {
        const fast = bestLevel(least, others, Math.max(a, b));
        const slow = bestLevel(least, others, Math.min(a, b));
        expect(slow.ratio).toBeLessThanOrEqual(fast.ratio);
      }),
      { numRuns: 2000 },
    );
  });

  it('none makes it more than the best of all tried by a fifth', () => {
    fc.assert(
      fc.property(levels, link, ([least, others], linkBytesPerS) => {
        const chosen = storedBytesPerS(bestLevel(least, others, linkBytesPerS), linkBytesPerS);
        const smaller = others.filter(({ ratio }) => ratio * 1.2 <= least.ratio);
        for (const other of smaller)
          expect(storedBytesPerS(other, linkBytesPerS)).toBeLessThanOrEqual(chosen * 1.2 * (1 + 1e-9));
      }),
    );
  });
});
