import { expect, it } from 'vitest';
import { isTooBusy } from '../../../src/model/many/admission.ts';

it.each([
  ['the load has reached it', 8, 8, [], true],
  ['the load is below it', 8, 7.9, [], false],
  [
    'the kernel does not know yet of those that began just now',
    4,
    0.2,
    [100_000, 100_000, 100_000, 100_000],
    true,
  ],
  ['it knows of those that began long ago', 4, 3.9, [-1e6, -1e6, -1e6, -1e6], false],
  ['it knows of a part of those that began a minute ago', 4, 2.6, [40_000, 40_000, 40_000, 40_000], true],
])('no task starts if %s: --max-load %d at %d', (_title, maxLoad, average1m, startedMs, isBusy) => {
  expect(isTooBusy(maxLoad, { average1m, startedMs, nowMs: 100_000 })).toBe(isBusy);
});

it('starts only as many on an idle machine as the limit says, all at one instant', () => {
  const startedMs: number[] = [];
  while (startedMs.length < 9 && !isTooBusy(5, { average1m: 0, startedMs, nowMs: 0 })) startedMs.push(0);
  expect(startedMs.length).toBe(5);
});
