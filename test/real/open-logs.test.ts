// A task that holds its logs open, killed thirty times: too long for every day.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DEATH_STATUSES, resumeUntilDone, uninterrupted } from '../e2e/open-logs.ts';
import { openPlace, type Place } from '../e2e/support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
});
afterEach(() => place.close());

it('a task that keeps logs open ends with the files of one run after thirty kills', async () => {
  const { steps, statuses, logs } = await resumeUntilDone(place, 30, Date.now() % 2 ** 31);
  expect(steps).toEqual(steps.toSorted((a, b) => a - b));
  expect(steps.at(-1)).toBeGreaterThan(0);
  expect(statuses).toEqual([...Array.from({ length: 10 }, () => DEATH_STATUSES).flat(), 0]);
  expect(logs).toEqual(uninterrupted(place));
}, 600_000);
