import { expect, it } from 'vitest';
import { committedCount, firstNumber, isSkipped } from '../../../src/model/checkpoint/takeovers.ts';

it('numbers go on one by one, and after a takeover with a gap that the dead one may still fill', () => {
  expect(firstNumber(3, false)).toBe(4);
  const first = firstNumber(3, true);
  expect([3, 4, first - 1, first].map((number) => isSkipped(number, first))).toEqual([
    false,
    true,
    true,
    false,
  ]);
});

it('the number of a set says how many there were, however often a sidecar was replaced', () => {
  const first = { seq: 0, generation: firstNumber(3, true) };
  const second = { seq: 0, generation: firstNumber(first.generation + 1, true) };
  expect(committedCount(3, [])).toBe(3);
  expect(committedCount(3, [first])).toBe(3);
  expect(committedCount(first.generation + 1, [first, second])).toBe(5);
  expect(committedCount(second.generation, [first, second])).toBe(6);
});
