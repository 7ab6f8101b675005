import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { clockMs, fromTimeOfDay, startTimer } from '../../src/native/clock.ts';

describe('the clock', () => {
  afterEach(() => vi.restoreAllMocks());

  it('goes on evenly when the time of day is set back or forward', () => {
    const before = clockMs();
    for (const stepMs of [-3_600_000, 86_400_000]) {
      vi.spyOn(Date, 'now').mockReturnValue(Date.now() + stepMs);
      expect(clockMs()).toBeGreaterThanOrEqual(before);
      expect(clockMs()).toBeLessThan(before + 60_000);
    }
  });

  it('knows an instant that is named by the time of day, whatever has been done to that', () => {
    const wall = Date.now() + 3_600_000;
    vi.spyOn(Date, 'now').mockReturnValue(wall);
    expect(Math.abs(fromTimeOfDay(wall + 5000) - (clockMs() + 5000))).toBeLessThan(1000);
  });
});

describe('a timer', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([1, 1000, 2 ** 31 - 1, 2 ** 31, 100 * 86_400_000])('of %i ms fires then, and not before', (ms) => {
    let fired = 0;
    startTimer(ms, () => (fired += 1));
    vi.advanceTimersByTime(ms - 1);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(2);
    expect(fired).toBe(1);
  });

  it('fires no more when it is cancelled in its second part', () => {
    let fired = 0;
    const timer = startTimer(2 ** 32, () => (fired += 1));
    vi.advanceTimersByTime(2 ** 31 + 1);
    timer.cancel();
    vi.advanceTimersByTime(2 ** 32);
    expect(fired).toBe(0);
  });
});
