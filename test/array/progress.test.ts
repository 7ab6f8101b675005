import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { tellNowAndThen } from '../../src/array/progress.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

it('tells once a minute, later more and more rarely, and at last once an hour', () => {
  let told = 0;
  const telling = tellNowAndThen(() => (told += 1));
  const toldWithin = (minutes: number): number => {
    const before = told;
    vi.advanceTimersByTime(minutes * 60_000);
    return told - before;
  };
  expect(toldWithin(10)).toBe(10);
  expect(toldWithin(50)).toBeGreaterThan(10);
  expect(toldWithin(60)).toBeLessThan(10);
  toldWithin(24 * 60);
  expect(toldWithin(24 * 60)).toBe(24);
  telling.close();
  expect(toldWithin(24 * 60)).toBe(0);
});
