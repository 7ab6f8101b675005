import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type End, ENDS, type IndexEntry } from '../../../../src/array/report/data.ts';
import { spanOf, stretchesOf } from '../../../../src/array/report/page/in-time.ts';

const entry = (...attempts: readonly (readonly [from: number, ran: number, end: End])[]): IndexEntry => ({
  index: '0',
  state: 'done',
  attempts: attempts.map(([from, ran, end]) => ({ attempt: 1, from, ran, kept: 0, end, host: 0, how: 0 })),
});

describe('attempts in time', () => {
  it('are counted while they are at work, and where they end', () => {
    const found = stretchesOf(
      [entry([100, 10, 'preempted'], [115, 5, 'done']), entry([100, 4, 'killed'])],
      0,
      6,
    );
    expect(found).toMatchObject({ step: 5, from: [100, 105, 110, 115] });
    expect(found?.atWork).toEqual([1.8, 1, 0, 1]);
    expect(found?.ends).toMatchObject({
      preempted: [0, 0, 1, 0],
      killed: [1, 0, 0, 0],
      done: [0, 0, 0, 1],
    });
  });

  it('are at work up to now while they run, also in an interval that has only begun', () => {
    const entries = [entry([103, 7, 'running'], [103, 2, 'killed'])];
    const found = stretchesOf(entries, 116, 6);
    expect(found).toMatchObject({ step: 5, from: [100, 105, 110, 115], atWork: [2, 1, 1, 1] });
    expect(found?.ends).toMatchObject({ killed: [0, 1, 0, 0], running: [0, 0, 0, 1] });
    // A clock that is ahead of the store's makes none of it unseen.
    expect(stretchesOf(entries, 0, 6)?.atWork).toEqual([2, 1.5, 1, 1]);
    expect(spanOf(entries, 116)).toEqual({ first: 103, last: 116 });
  });

  it('are nothing before the first has begun', () => {
    expect(stretchesOf([{ index: '0', state: 'missing', attempts: [] }], 0)).toBeUndefined();
  });

  it('are all there, in a bounded number of stretches, however long they took', () => {
    const one = fc.tuple(
      fc.integer({ min: 0, max: 2e12 }).map((ms) => ms / 1000),
      fc.integer({ min: 0, max: 1e10 }).map((ms) => ms / 1000),
      fc.constantFrom(...ENDS),
    );
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: 20 }), (attempts) => {
        const found = stretchesOf([entry(...attempts)], 0);
        const { first, last } = spanOf([entry(...attempts)], 0) ?? { first: 0, last: 0 };
        if (found === undefined) throw new Error('nothing');
        const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
        expect(found.from.length).toBeLessThanOrEqual(120);
        expect(sum(ENDS.map((end) => sum(found.ends[end])))).toBe(attempts.length);
        const { step } = found;
        const seconds = found.from.map(
          (from, at) => (found.atWork[at] ?? 0) * (Math.min(last, from + step) - Math.max(first, from)),
        );
        expect(sum(seconds)).toBeCloseTo(sum(attempts.map(([, ran]) => ran)), 3);
      }),
    );
  });
});
