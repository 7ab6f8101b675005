// --drop-checkpoints-when-done: what a run that is done leaves, and what a later start of that index believes.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPlace, type Place, type Run } from './support.ts';

const OPTIONS = ['--task-name', 't', '-r', 'r.dat', '-k', 'k.chk', '--drop-checkpoints-when-done'] as const;

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());
const next = (task: string, ...more: readonly string[]): Run =>
  place.run([...OPTIONS, ...more], ['sh', '-c', task]);

it('an index that is done has no checkpoint any more, and one that is not keeps its own', async () => {
  const failed = next('seq 1 100 > k.chk; exit 3', '--trust-exit', '3');
  expect(await failed.status, failed.stderr()).toBe(3);
  expect(place.keys().filter((key) => key.includes('k.chk'))).toHaveLength(1);
  place.freshWork();
  const done = next('cat k.chk > r.dat; seq 1 200 > k.chk');
  expect(await done.status, done.stderr()).toBe(0);
  expect(place.keys().filter((key) => key.includes('k.chk'))).toEqual([]);
  expect(place.records().at(-1)?.record).toMatchObject({ kind: 'done', generations: [], pruned: true });
  place.freshWork();
  const skipped = next('exit 9', '--skip-done');
  expect(await skipped.status, skipped.stderr()).toBe(0);
  const again = next('test ! -e k.chk');
  expect(await again.status, again.stderr()).toBe(0);
});
