import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  byUrgency,
  deadlineOf,
  drainReserveMs,
  mayStart,
  SendingRate,
  type Sending,
  tooLate,
} from '../../../src/model/file/deadline.ts';

const result = (bytes: number): Sending => ({ role: 'result', bytes });
const checkpoint = (bytes: number): Sending => ({ role: 'checkpoint', bytes });
const sendings = fc.array(
  fc.record({ role: fc.constantFrom('result', 'checkpoint'), bytes: fc.nat(10_000) } as const),
  { maxLength: 12 },
);

describe('the deadline', () => {
  it('is shortly before the instant that a source names', () => {
    expect(deadlineOf(120_000, 0, 27_000)).toBe(118_000);
  });

  it('is the grace from now when the source names none, or one that is past', () => {
    expect(deadlineOf(undefined, 5000, 27_000)).toBe(32_000);
    expect(deadlineOf(4000, 5000, 27_000)).toBe(32_000);
  });

  it('is now when the instant is about to come', () => {
    expect(deadlineOf(5500, 5000, 27_000)).toBe(5000);
  });
});

describe('what is kept of a window for the drain', () => {
  it('is a third while nothing is measured', () => {
    expect(drainReserveMs(27_000, undefined)).toBe(9000);
  });

  it('is what the drain takes, and a reserve', () => {
    expect(drainReserveMs(120_000, 10_000)).toBe(15_000);
    expect(drainReserveMs(120_000, 0)).toBe(3000);
  });

  it('is never more than a third, and never negative', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1000, max: 1e6 }), fc.option(fc.nat(1e7)), (windowMs, drainMs) => {
        const reserveMs = drainReserveMs(windowMs, drainMs ?? undefined);
        expect(reserveMs).toBeGreaterThanOrEqual(0);
        expect(reserveMs).toBeLessThanOrEqual(Math.max(0, windowMs) / 3);
      }),
    );
  });
});

describe('the order', () => {
  it('has checkpoints first, then the smallest', () => {
    const files = [result(5), checkpoint(9), result(1), checkpoint(2)];
    expect(files.toSorted(byUrgency)).toEqual([checkpoint(2), checkpoint(9), result(1), result(5)]);
  });
});

describe('a file is begun', () => {
  const window = { leftMs: 1000, bytesPerMs: 10 };

  it('when it fits beside what is under way, and not when it does not', () => {
    expect(mayStart(result(4000), [result(6000)], window)).toBe(true);
    expect(mayStart(result(4001), [result(6000)], window)).toBe(false);
  });

  it('not while what is under way keeps the link busy for a second, but for a second one', () => {
    const long = { leftMs: 60_000, bytesPerMs: 10 };
    expect(mayStart(result(1), [result(5000), result(4000)], long)).toBe(true);
    expect(mayStart(result(1), [result(5000), result(5000)], long)).toBe(false);
    expect(mayStart(result(1), [result(500_000)], long)).toBe(true);
  });

  it('alone beside a checkpoint that keeps the link busy', () => {
    const long = { leftMs: 60_000, bytesPerMs: 10 };
    expect(mayStart(result(1), [checkpoint(20_000)], long)).toBe(true);
    expect(mayStart(result(1), [checkpoint(20_000), result(1)], long)).toBe(false);
  });

  it('beside what cannot end in time in any case', () => {
    expect(mayStart(result(1000), [result(1e6)], window)).toBe(true);
    expect(mayStart(result(10_001), [result(1e6)], window)).toBe(false);
  });

  it('on an idle link whatever was measured: nothing else would use the time', () => {
    expect(mayStart(result(1e9), [], window)).toBe(true);
  });

  it('whatever its size when it is a checkpoint, or nothing is measured, but never after the end', () => {
    expect(mayStart(checkpoint(1e9), [result(1e9)], window)).toBe(true);
    expect(mayStart(result(1e9), [], { leftMs: 1, bytesPerMs: undefined })).toBe(true);
    expect(mayStart(checkpoint(1), [], { leftMs: 0, bytesPerMs: 10 })).toBe(false);
  });
});

describe('pushes under way that are given up', () => {
  it('are those that take the link from what can end in time', () => {
    const small = result(1000);
    const large = result(1e6);
    expect(tooLate([large, small], { leftMs: 1000, bytesPerMs: 10 })).toEqual([large]);
  });

  it('are those that take more than half of the time beside a checkpoint', () => {
    const window = { leftMs: 1000, bytesPerMs: 10 };
    expect(tooLate([result(3000), checkpoint(3000)], window)).toEqual([result(3000)]);
    expect(tooLate([result(2000), checkpoint(3000)], window)).toEqual([]);
  });

  it('are all but what is nearly sent beside a checkpoint, of a link of which nothing is known', () => {
    const large = result(9 * 2 ** 20);
    const window = { leftMs: 1000, bytesPerMs: undefined };
    expect(tooLate([large, result(1), checkpoint(1e9)], window)).toEqual([large]);
    expect(tooLate([large, large], window)).toEqual([]);
  });

  it('are never checkpoints, without one never all, and leave what fits', () => {
    fc.assert(
      fc.property(sendings, fc.nat(5000), fc.nat(20), (underWay, leftMs, rate) => {
        const given = tooLate(underWay, { leftMs, bytesPerMs: rate });
        expect(given.every(({ role }) => role === 'result')).toBe(true);
        const isCheckpoint = underWay.some(({ role }) => role === 'checkpoint');
        if (!isCheckpoint && underWay.length > 0) expect(given.length).toBeLessThan(underWay.length);
        const all = underWay.reduce((sum, { bytes }) => sum + bytes, 0);
        if (all <= (rate * leftMs) / 2) expect(given).toEqual([]);
      }),
    );
  });
});

describe('the rate of the link', () => {
  it('counts only the time in which something was under way', () => {
    const rate = new SendingRate();
    expect(rate.bytesPerMs(0)).toBeUndefined();
    rate.began(1000);
    rate.sent(5_000_000, 1500);
    rate.ended(2000);
    expect(rate.bytesPerMs(60_000)).toBeCloseTo(5000, -3);
  });

  it('follows a link that becomes slower', () => {
    const rate = new SendingRate();
    rate.began(0);
    for (let second = 1; second <= 60; second += 1) rate.sent(100_000, second * 1000);
    expect(rate.bytesPerMs(60_000)).toBeCloseTo(100, -1);
    for (let second = 61; second <= 120; second += 1) rate.sent(10_000, second * 1000);
    expect(rate.bytesPerMs(120_000)).toBeLessThan(20);
  });

  it('counts on demand what is sent and not acknowledged, once anything is measured', () => {
    const rate = new SendingRate();
    rate.began(0);
    expect(rate.bytesPerMsWith(1e6, 1000)).toBeUndefined();
    rate.sent(1e6, 1000);
    expect(rate.bytesPerMsWith(0, 1000)).toBe(rate.bytesPerMs(1000));
    const more = (rate.bytesPerMsWith(9e6, 1000) ?? 0) / (rate.bytesPerMs(1000) ?? 1);
    expect(more).toBeCloseTo(10, 0);
  });

  it('is unknown while a few small files show only how soon the store answers', () => {
    const rate = new SendingRate();
    rate.began(0);
    for (let n = 1; n <= 20; n += 1) rate.sent(1000, n * 200);
    expect(rate.bytesPerMs(4000)).toBeUndefined();
  });

  it('falls while nothing is acknowledged', () => {
    const rate = new SendingRate();
    rate.began(0);
    rate.sent(1e6, 1000);
    const early = rate.bytesPerMs(1000) ?? 0;
    expect(rate.bytesPerMs(30_000)).toBeLessThan(early);
  });
});
