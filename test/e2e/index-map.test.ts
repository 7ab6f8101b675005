import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('runs again what is missing, on an engine that takes only the size of an array', async () => {
  const task = ['sh', '-c', 'echo $((2 * CAPTURED_INDEX)) > r.dat'];
  const options = ['--task-name', 't', '-r', 'r.dat'];
  for (const index of ['0', '2', '4']) {
    expect(await place.run(options, task, { JOB_COMPLETION_INDEX: index }).status).toBe(0);
    place.freshWork();
  }
  const status = ['status', place.store, '--array', '0-4'];
  const missing = place.capture([...status, '--missing', '--format', 'lines']);
  expect(await missing.status).toBe(1);
  expect(missing.stdout()).toBe('1\n3\n');
  fs.writeFileSync(`${place.dir}/again.txt`, missing.stdout());

  const again = [...options, '--index-map', `${place.dir}/again.txt`];
  for (const line of ['0', '1']) {
    expect(await place.run(again, task, { JOB_COMPLETION_INDEX: line }).status).toBe(0);
    place.freshWork();
  }
  const outside = place.run(again, task, { JOB_COMPLETION_INDEX: '2' });
  expect(await outside.status).toBe(64);
  expect(outside.stderr()).toContain('there is no line 2 (JOB_COMPLETION_INDEX): its lines are 0 to 1');

  expect(await place.capture(status).status).toBe(0);
  expect(place.keys()).toEqual(['0', '1', '2', '3', '4'].map((index) => `r.dat.${index}`));
  expect(place.text('r.dat.3')).toBe('6\n');
});
