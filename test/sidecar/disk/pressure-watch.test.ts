// When the free space is looked at for a reclaim.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Pressure } from '../../../src/reclaim/pressure.ts';
import { PressureWatch } from '../../../src/sidecar/disk/pressure-watch.ts';

let pressure: Pressure;
let looks: number;
let relieved: number;
let pressureWatch: PressureWatch;

beforeEach(() => {
  vi.useFakeTimers();
  [pressure, looks, relieved] = ['none', 0, 0];
  pressureWatch = new PressureWatch({
    look: async () => {
      looks += 1;
      return pressure;
    },
    reclaim: async () => void (relieved += 1),
  });
});
afterEach(() => {
  pressureWatch.close();
  vi.useRealTimers();
});

it('checks at most once a second, and after the last result of a burst, too', async () => {
  for (let n = 0; n < 90; n += 1) {
    pressureWatch.changed();
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(looks).toBe(1);
  pressure = 'high';
  await vi.advanceTimersByTimeAsync(1000);
  expect([looks, relieved]).toEqual([2, 1]);
});

it('keeps checking while the space may run short, and sleeps when there is room', async () => {
  pressure = 'near';
  pressureWatch.changed();
  await vi.advanceTimersByTimeAsync(11_000);
  expect([looks, relieved]).toEqual([3, 0]);
  pressure = 'none';
  await vi.advanceTimersByTimeAsync(60_000);
  expect(looks).toBe(4);
});

it('frees space when it runs short although nothing is stored', async () => {
  pressure = 'near';
  pressureWatch.changed();
  await vi.advanceTimersByTimeAsync(100);
  pressure = 'high';
  await vi.advanceTimersByTimeAsync(5000);
  expect(relieved).toBe(1);
});

it('does nothing after it is closed', async () => {
  pressure = 'high';
  pressureWatch.changed();
  pressureWatch.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([looks, relieved]).toEqual([0, 0]);
});
