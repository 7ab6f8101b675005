// --dry-run says what the real command would do: whatever that leaves out, or hints at, it does, too.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

it('a store inside the work directory is left out, as by the run', async () => {
  const store = place.at('store [1]');
  const options = ['--to', store, '-r', '**', '--exclude', '*.log', '--task-name', 't'];
  const first = place.exec([BIN, ...options, '--keep', '--', 'sh', '-c', 'echo 1 > r.dat; echo x > x.log']);
  expect(await first.status, first.stderr()).toBe(0);
  const again = place.exec([BIN, ...options, '--dry-run', '--', 'true']);
  expect(await again.status, again.stderr()).toBe(0);
  expect(again.stdout().match(/^(result|input|checkpoint) .*/gm)).toEqual([
    'result r.dat (2 B) -> r.dat.0[.zst]',
  ]);
  const second = place.exec([BIN, ...options, '--keep', '--', 'true']);
  expect(await second.status, second.stderr()).toBe(0);
  const objects = fs.readdirSync(store, { recursive: true, encoding: 'utf8' });
  expect(objects.filter((name) => name.includes('r.dat'))).toEqual(['r.dat.0']);
});

it.each<[string, readonly string[], readonly string[]]>([
  ['a run', [], ['--', 'true']],
  ['a restore', ['restore'], []],
])('%s whose index has checkpoints under another task name gets the hint', async (_, command, task) => {
  const made = place.run(['-k', 'k', '--task-name', 'old'], ['sh', '-c', 'echo 1 > k']);
  expect(await made.status, made.stderr()).toBe(0);
  place.freshWork();
  const options = ['--to', place.store, '-k', 'k', '--task-name', 'new'];
  const dry = place.exec([BIN, ...command, ...options, '--dry-run', ...task]);
  expect(await dry.status, dry.stderr()).toBe(0);
  const real = place.exec([BIN, ...command, ...options, ...task]);
  expect(await real.status, real.stderr()).toBe(0);
  const hint = 'try: --task-name old: this index has checkpoints under that name';
  expect(dry.stdout()).toContain(`restore: no checkpoint is stored\n  ${hint}\n`);
  expect(real.stderr()).toContain(hint);
});
