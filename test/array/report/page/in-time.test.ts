import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type End, ENDS, type IndexEntry } from '../../../../src/array/report/data.ts';
import { stretchesOf } from '../../../../src/array/report/page/in-time.ts';

const entry = (...attempts: readonly (readonly [from: number, ran: number, end: End])[]): IndexEntry => ({
  index: '0',
  state: 'done',
  attempts: attempts.map(([from, ran, end]) => ({ attempt: 1, from, ran, kept: 0, end, host: 0, how: 0 })),
});

describe('attempts in time', () => {
  it('are counted while they are at work, and where they end', () => {
    const found = stretchesOf(
      [entry([100, 10, 'preempted'], [115, 5, 'done']), entry([100, 4, 'killed'])],
      6,
    );
    expect(found).toMatchObject({ step: 5, from: [100, 105, 110, 115, 120] });
    expect(found?.atWork).toEqual([1.8, 1, 0, 1, 0]);
    expect(found?.ends).toMatchObject({
      preempted: [0, 0, 1, 0, 0],
      killed: [1, 0, 0, 0, 0],
      done: [0, 0, 0, 0, 1],
    });
  });

  it('are nothing before the first has begun', () => {
    expect(stretchesOf([{ index: '0', state: 'missing', attempts: [] }])).toBeUndefined();
  });

  it('are all there, in a bounded number of stretches, however long they took', () => {
    const one = fc.tuple(
      fc.integer({ min: 0, max: 2e9 }),
      fc.integer({ min: 0, max: 1e7 }),
      fc.constantFrom(...ENDS),
    );
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 20 }), (attempts) => {
        const found = stretchesOf([entry(...attempts)]);
        if (found === undefined) throw new Error('nothing');
        const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
        expect(found.from.length).toBeLessThanOrEqual(121);
        expect(sum(ENDS.map((end) => sum(found.ends[end])))).toBe(attempts.length);
        expect(sum(found.atWork) * found.step).toBeCloseTo(sum(attempts.map(([, ran]) => ran)), 3);
      }),
    );
  });
});
