// Numbers as the page writes them.
import { expect, it } from 'vitest';
import { numberText } from '../../../../src/array/report/page/words.ts';

it.each([
  [0.02, '0.02'],
  [0.0412, '0.0412'],
  [1.5, '1.5'],
  [1.9375, '1.94'],
  [12, '12'],
  [1200, '1,200'],
])('writes %d with three digits', (value, text) => {
  expect(numberText(value)).toBe(text);
});
