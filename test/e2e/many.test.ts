// Thousands of results: records stay small, nothing is written twice, and the next attempt knows them all.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readFound } from './store-files.ts';
import { openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
});
afterEach(() => place.close());

const COUNT = 2500;
const task = ['sh', '-c', `mkdir out; i=0; while [ $i -lt ${COUNT} ]; do echo $i > out/$i; i=$((i+1)); done`];

it('2,500 results are recorded in list segments, and a run that makes the same ones sends nothing', async () => {
  const first = place.run(['-r', 'out/'], task);
  expect(await first.status, first.stderr()).toBe(0);
  expect(place.keys()).toHaveLength(COUNT);
  const last = place.records().at(-1)?.record;
  expect(last?.segments.length).toBeGreaterThanOrEqual(1);
  expect(last?.results.length).toBeLessThanOrEqual(1000);
  expect(fs.readdirSync(place.at('out'))).toEqual([]);
  const inodes = (): readonly number[] => place.keys().map((key) => fs.statSync(`${place.store}/${key}`).ino);
  const before = inodes();
  place.freshWork();
  const second = place.run(['-r', 'out/'], task);
  expect(await second.status, second.stderr()).toBe(0);
  expect(inodes()).toEqual(before);
  const segments = readFound(place.store).filter((key) => key.endsWith('.list.json'));
  const named = place.records().at(-1)?.record.segments ?? [];
  // The second attempt goes on with the segments of the first.
  expect(named).toEqual(last?.segments);
  expect(segments).toHaveLength(named.length);
});
