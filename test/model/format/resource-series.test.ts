import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { METRICS, RESOURCES_LIMIT_BYTES, valuesOf } from '../../../src/model/format/resources.ts';
import { ResourceSeries, SAMPLE_EVERY_MS, type Sample } from '../../../src/model/format/resource-series.ts';

const START_MS = Date.parse('2026-11-22T12:00:00.000Z');
const HOUR = 3_600_000 / SAMPLE_EVERY_MS;

/** One sample every 10 s, each of `values`. */
function seriesOf(values: readonly (Sample | undefined)[]): ResourceSeries {
  const series = new ResourceSeries(START_MS);
  values.forEach((sample, at) => {
    if (sample !== undefined) series.add(START_MS + at * SAMPLE_EVERY_MS, sample);
  });
  return series;
}

const read = (series: ResourceSeries, which: 'mean' | 'max' = 'mean'): readonly (number | undefined)[] =>
  valuesOf({ capture: { cpuS: 0, peakMemoryBytes: 0 }, ...series.fields }, 'taskMemory', which);

describe('the series', () => {
  it('has one step for each sample of a short run', () => {
    const series = seriesOf([{ taskMemory: 100 }, { taskMemory: 300 }]);
    expect(series.fields).toMatchObject({ from: '2026-11-22T12:00:00.000Z', stepS: 10 });
    expect(read(series)).toEqual([100, 300]);
  });

  it('halves its resolution when it is full: the mean stays the mean, the highest the highest', () => {
    const series = seriesOf(Array.from({ length: 49 }, (_, at) => ({ taskMemory: at % 2 === 0 ? 10 : 30 })));
    expect(series.fields.stepS).toBe(20);
    expect(read(series)).toEqual([...Array.from({ length: 24 }, () => 20), 10]);
    expect(read(series, 'max')).toEqual([...Array.from({ length: 24 }, () => 30), 10]);
  });

  it('has 45 steps after an hour', () => {
    const series = seriesOf(Array.from({ length: HOUR }, () => ({ taskMemory: 1 })));
    expect(series.fields.stepS).toBe(80);
    expect(read(series)).toEqual(Array.from({ length: 45 }, () => 1));
  });

  it('shows what nobody has seen as a gap', () => {
    expect(read(seriesOf([{ taskMemory: 1 }, undefined, { load: 2 }, { taskMemory: 4 }]))).toEqual([
      1,
      undefined,
      undefined,
      4,
    ]);
  });

  it('keeps a peak between two samples in the highest value, not in the mean', () => {
    const series = new ResourceSeries(START_MS);
    series.add(START_MS, { taskMemory: 100 }, { taskMemory: 900 });
    expect([...read(series), ...read(series, 'max')]).toEqual([100, 900]);
  });

  it('takes what comes after a clock was set back for its beginning', () => {
    const series = new ResourceSeries(START_MS);
    series.add(START_MS - 60_000, { taskMemory: 7 });
    expect(read(series)).toEqual([7]);
  });

  it('goes on where a sidecar that died has stopped', () => {
    const before = seriesOf(Array.from({ length: 60 }, (_, at) => ({ taskMemory: at })));
    const after = new ResourceSeries(START_MS + 1e6, before.fields);
    expect(after.fields).toEqual(before.fields);
    after.add(START_MS + 60 * SAMPLE_EVERY_MS, { taskMemory: 500 });
    expect(read(after, 'max').at(-1)).toBe(500);
    // The last step was of 20 s: two samples of 58.5 on average.
    after.add(START_MS + 59 * SAMPLE_EVERY_MS, { taskMemory: 300 });
    expect(Math.round(read(after).at(-2) ?? 0)).toBe(Math.round((59 + 59 + 300) / 3));
  });

  it('is close to what was measured, and never below the highest', () => {
    const levels = fc.array(fc.double({ min: 0, max: 2 ** 50, noNaN: true }), {
      minLength: 1,
      maxLength: 300,
    });
    fc.assert(
      fc.property(levels, (values) => {
        const series = seriesOf(values.map((taskMemory) => ({ taskMemory })));
        const highest = Math.max(...values);
        const shown = Math.max(...read(series, 'max').map((value) => value ?? 0));
        expect(shown).toBeGreaterThanOrEqual(highest);
        expect(shown).toBeLessThanOrEqual(highest * 1.01 + 1);
      }),
    );
  });

  it.each([1, 6, 45, 49, HOUR, 24 * HOUR, 60 * 24 * HOUR])(
    'with the longest numbers in all its lines is short after %i samples',
    (samples) => {
      const series = new ResourceSeries(START_MS);
      for (let at = 0; at < samples; at += 1) {
        const value = 999 * 2 ** 40 - (at % 2);
        const sample = Object.fromEntries(
          METRICS.map((metric) => [metric, at % 5 === 4 ? undefined : value]),
        );
        series.add(START_MS + at * SAMPLE_EVERY_MS, sample);
      }
      // The rest of the field has some 300 bytes.
      expect(JSON.stringify(series.fields).length).toBeLessThan(RESOURCES_LIMIT_BYTES);
    },
  );
});
