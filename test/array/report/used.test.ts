import { describe, expect, it } from 'vitest';
import { stepsFor, usedOf } from '../../../src/array/report/used.ts';
import type { Resources } from '../../../src/model/format/resources.ts';

const resources: Resources = {
  capture: { cpuS: 1, peakMemoryBytes: 1 },
  from: '2026-11-22T12:00:00.000Z',
  stepS: 80,
  series: {
    taskCpu: { unit: 0.5, mean: [1, 3, null, 5, 8], max: [9, 9, null, 9, 9] },
    taskMemory: { unit: 4, mean: [0, 0, 0, 0, 0], max: [1, 3, null, 5, 8] },
    load: { unit: 1, mean: [1, 1, 1, 1, 1], max: [1, 1, 1, 1, 1] },
  },
};

describe('what an attempt used, in a page', () => {
  it('is a rate by its mean, and what can run out by its highest', () => {
    expect(usedOf(resources, 48)).toEqual({
      from: Date.parse(resources.from) / 1000,
      step: 80,
      lines: {
        taskCpu: { unit: 0.5, values: [1, 3, null, 5, 8] },
        taskMemory: { unit: 4, values: [1, 3, null, 5, 8] },
      },
    });
  });

  it('has fewer and longer steps where there is less room', () => {
    expect(usedOf(resources, 3)).toMatchObject({
      step: 160,
      lines: { taskCpu: { values: [2, 5, 8] }, taskMemory: { values: [3, 5, 8] } },
    });
    expect(usedOf(resources, 2)).toMatchObject({ step: 320, lines: { taskMemory: { values: [5, 8] } } });
  });

  it('is left out where there is no room, or nothing was seen', () => {
    expect(usedOf(resources, 0)).toBeUndefined();
    expect(usedOf(undefined, 48)).toBeUndefined();
    expect(usedOf({ ...resources, series: {} }, 48)).toBeUndefined();
  });

  it('takes the same room for an array of any size', () => {
    expect(stepsFor(1)).toBeGreaterThan(48);
    for (const attempts of [10, 1000, 12_000, 40_000, 1_000_000])
      expect(stepsFor(attempts) * attempts * 4).toBeLessThanOrEqual(Math.max(2_400_000, attempts * 16));
    expect(stepsFor(1_000_000)).toBe(0);
  });
});
