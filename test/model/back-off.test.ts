import { expect, test } from 'vitest';
import { pauseAfter } from '../../src/model/back-off.ts';

test('a pause doubles up to its bound and stays there, however many there have been', () => {
  const backOff = { firstMs: 250, mostMs: 1500 };
  expect([0, 1, 2, 3, 4, 1e6].map((before) => pauseAfter(backOff, before))).toEqual([
    250, 500, 1000, 1500, 1500, 1500,
  ]);
});

test('a pause grows by its own factor', () => {
  const backOff = { firstMs: 250, mostMs: 5000, factor: 1.5 };
  expect([0, 1, 2, 9].map((before) => pauseAfter(backOff, before))).toEqual([250, 375, 562.5, 5000]);
});

test('a pause whose first is its bound is always the same', () => {
  expect([0, 1, 100].map((before) => pauseAfter({ firstMs: 500, mostMs: 500 }, before))).toEqual([
    500, 500, 500,
  ]);
});
