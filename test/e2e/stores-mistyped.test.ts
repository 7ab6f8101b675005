// A mistyped directory is seen at the first look: a store that is new says so, and one that cannot be is named.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { unstamped } from '../support/messages.ts';
import { openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const FILES = ['-r', 'r.dat', '--task-name', 't'];

it('a store that is made by this run is told in the first line, and in no later one', async () => {
  const dry = place.run([...FILES, '--dry-run'], ['true']);
  expect(await dry.status, dry.stderr()).toBe(0);
  expect(dry.stdout()).toContain(
    `-> file://${place.store} (there is no such directory: the run makes it); results`,
  );
  const first = place.run(FILES, ['true']);
  expect(await first.status, first.stderr()).toBe(0);
  expect(first.stderr()).toContain(`-> file://${place.store} (a new directory); results: r.dat`);
  const second = place.run(FILES, ['true']);
  expect(await second.status, second.stderr()).toBe(0);
  expect(second.stderr()).toContain(`-> file://${place.store}; results: r.dat`);
});

it('a restore from a directory that does not exist says so, and makes none', async () => {
  const restore = place.capture(['restore', '--to', place.store, ...FILES]);
  expect(await restore.status, restore.stderr()).toBe(0);
  expect(restore.stderr()).toContain(`from file://${place.store}: there is no such directory`);
  expect(fs.existsSync(place.store)).toBe(false);
});

it.each(['', '/below/it'])('a file where the store should be is named: its path and %j', async (below) => {
  const file = `${place.dir}/file`;
  fs.writeFileSync(file, 'x');
  const run = place.capture(['--to', `${file}${below}`, ...FILES, '--', 'true']);
  expect(await run.status).toBe(69);
  expect(unstamped(run.stderr())).toBe(
    `capture: the store cannot be in ${file}${below}: ${file} is a file, not a directory\n` +
      '  try: name a directory with --to or --from\n',
  );
});

it('an input that is nowhere names both stores, and the one that does not exist', async () => {
  const typo = `${place.dir}/tpyo`;
  const run = place.run(['--from', typo, '-i', 'in.dat', ...FILES], ['true']);
  expect(await run.status).toBe(66);
  expect(run.stderr()).toContain(
    `nor in file://${typo} (there is no such directory) nor in file://${place.store} (there is no such directory): in.dat`,
  );
});
