import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Durations, etaMs } from '../../../src/model/many/eta.ts';

describe('the time that is left', () => {
  it.each([
    [{ medianMs: 10, runningMs: [], waiting: 0, atOnce: 2 }, 0],
    [{ medianMs: undefined, runningMs: [1], waiting: 5, atOnce: 2 }, undefined],
    [{ medianMs: 10, runningMs: [], waiting: 5, atOnce: 0 }, undefined],
    [{ medianMs: 10, runningMs: [], waiting: 4, atOnce: 2 }, 20],
    [{ medianMs: 10, runningMs: [], waiting: 5, atOnce: 2 }, 30],
    [{ medianMs: 10, runningMs: [4, 9], waiting: 0, atOnce: 2 }, 6],
    // The first place is free after 1, the second after 6.
    [{ medianMs: 10, runningMs: [4, 9], waiting: 1, atOnce: 2 }, 11],
    [{ medianMs: 10, runningMs: [4, 9], waiting: 2, atOnce: 2 }, 16],
    [{ medianMs: 10, runningMs: [99], waiting: 1, atOnce: 1 }, 10],
    // Four run, and only two may: those that wait come to the first two that end.
    [{ medianMs: 10, runningMs: [8, 6, 4, 2], waiting: 2, atOnce: 2 }, 14],
  ])('of %j is %j', (left, ms) => {
    expect(etaMs(left)).toBe(ms);
  });

  it('is that of tasks dealt one by one to the place that is free first', () => {
    const ages = fc.array(fc.nat(150), { maxLength: 8 });
    fc.assert(
      fc.property(ages, fc.nat(50), fc.nat(8), (runningMs, waiting, more) => {
        const atOnce = runningMs.length + more;
        fc.pre(atOnce > 0);
        const places = Array.from({ length: atOnce }, (_, at) => Math.max(0, 100 - (runningMs[at] ?? 100)));
        for (let task = 0; task < waiting; task += 1) {
          const first = places.indexOf(Math.min(...places));
          places[first] = (places[first] ?? 0) + 100;
        }
        expect(etaMs({ medianMs: 100, runningMs, waiting, atOnce })).toBe(Math.max(...places));
      }),
    );
  });
});

describe('how long a task takes', () => {
  it('is the median, which one that hung does not move', () => {
    const durations = new Durations();
    expect(durations.medianMs()).toBeUndefined();
    for (const ms of [10, 12, 11, 900_000, 9]) durations.add(ms);
    expect(durations.medianMs()).toBe(11);
  });

  it('follows the newest', () => {
    const durations = new Durations();
    for (let task = 0; task < 10_000; task += 1) durations.add(1000);
    for (let task = 0; task < 200; task += 1) durations.add(5);
    expect(durations.medianMs()).toBe(5);
  });
});
