// Numbers as the page writes them.
import { expect, it } from 'vitest';
import { durationText, numberText, timeText } from '../../../../src/array/report/page/words.ts';

it.each([
  [0.02, '0.02'],
  [0.0412, '0.0412'],
  [1.5, '1.5'],
  [1.9375, '1.94'],
  [12, '12'],
  [99.96, '100'],
  [1200, '1,200'],
  [9876.4, '9,876'],
])('writes %d as %s', (value, text) => {
  expect(numberText(value)).toBe(text);
});

it.each([
  [0, '0 s'],
  [0.004, '0.004 s'],
  [0.342, '0.3 s'],
  [0.97, '1 s'],
  [1.26, '1.3 s'],
  [3720, '1 h 2 min'],
])('writes %d s as %s', (value, text) => {
  expect(durationText(value)).toBe(text);
});

it('cuts a time to its second, however it was added up', () => {
  expect(timeText(1_764_288_009.999)).toBe('2025-11-28 00:00:09Z');
  // 1764288010 in numbers of 64 bits: a trifle less.
  const sum = 1_764_288_000.9 + 9.1 - 2 ** -22;
  expect(sum).toBeLessThan(1_764_288_010);
  expect(timeText(sum)).toBe('2025-11-28 00:00:10Z');
});
