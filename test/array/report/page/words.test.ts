// Numbers as the page writes them.
import { expect, it } from 'vitest';
import { numberText } from '../../../../src/array/report/page/words.ts';

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
