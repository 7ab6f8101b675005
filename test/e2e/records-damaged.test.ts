// Records that were damaged in the store: a checkpoint that they name is never taken for another one, nor for none.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlace, type Place, type Run } from './support.ts';

const OPTIONS = ['--task-name', 't', '--index', '7', '-k', '*chk'] as const;

let place: Place;
beforeEach(async () => {
  place = openPlace();
  const task = 'echo 9 > a.chk; echo 9 > b.chk; exit 3';
  await place.run([...OPTIONS, '--trust-exit', '3'], ['sh', '-c', task]).status;
  place.freshWork();
});
afterEach(() => place.close());

const recordFiles = (): readonly string[] => {
  const dir = path.join(place.store, '.capture/t/7');
  return fs
    .readdirSync(dir)
    .toSorted()
    .map((name) => path.join(dir, name));
};
const next = (...options: readonly string[]): Run =>
  place.run([...OPTIONS, ...options], ['sh', '-c', 'echo "restored [$CAPTURED_RESTORED]"; ls']);

describe('a record with a flipped bit is passed over for the one before it', () => {
  it.each([
    ['in the name of a field', /"generations"/, '"generatyons"'],
    ['in a path', /"path":"b.chk"/, '"path":"b*chk"'],
  ])('%s', async (_, from, to) => {
    const last = recordFiles().at(-1) ?? '';
    fs.writeFileSync(last, fs.readFileSync(last, 'utf8').replace(from, to));
    const run = next();
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('restored [1-1]\na.chk\nb.chk\n');
    expect(run.stderr()).toMatch(/record .* cannot be used \(its checksum .*the one before it is used/);
  });

  it('and so is one that stands under the key of another', async () => {
    const [claim = '', last = ''] = [recordFiles().at(0), recordFiles().at(-1)];
    fs.copyFileSync(claim, last);
    const run = next();
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toContain('restored [1-1]');
    expect(run.stderr()).toMatch(/failed-3\.json cannot be used \(it is the record .*000000\.started/);
  });
});

describe('records of which none is whole', () => {
  beforeEach(() => {
    for (const file of recordFiles()) fs.truncateSync(file, 100);
  });

  it('end the run with 69 before the task, each time, and --no-restore starts from nothing', async () => {
    for (let round = 0; round < 2; round += 1) {
      const run = next();
      expect(await run.status, run.stderr()).toBe(69);
      expect(run.stdout()).toBe('');
      expect(run.stderr()).toMatch(
        /no record of 1 earlier attempt in .* is whole: record .*\n {2}try: .*--no-rest/,
      );
    }
    const anew = next('--no-restore');
    expect(await anew.status, anew.stderr()).toBe(0);
    expect(anew.stdout()).toBe('restored []\n');
    expect(anew.stderr()).not.toContain('the one before it is used');
    expect(anew.stderr()).toContain('its attempt has no other that tells what it stored');
  });

  it.each(['restore', '--dry-run'])('end capture %s with 69, too', async (what) => {
    const args = ['--to', place.store, ...OPTIONS];
    const run = place.capture(what === 'restore' ? [what, ...args] : [what, ...args, '--', 'true']);
    expect(await run.status, run.stderr()).toBe(69);
    expect(run.stderr()).toContain('is whole');
  });
});

it('Records of another run that are damaged do not hold up this one', async () => {
  for (const file of recordFiles().slice(1)) fs.truncateSync(file, 100);
  const run = next('--run', 'b');
  expect(await run.status, run.stderr()).toBe(0);
  expect(run.stdout()).toBe('restored []\n');
});
