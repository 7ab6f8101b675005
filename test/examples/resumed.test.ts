// The examples that run an array on one machine: everything is killed half-way, as when the machine is lost, and the same
// command ends what is left. The results are those of an uninterrupted run.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, killTree, openPlace, type Place, type Run, until } from '../e2e/support.ts';
import { expectOutputOf } from './expected.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** The second attempt in `capture status <url> <index>`: it began from a checkpoint of the first one. */
const RESUMED = /^ +2 .* 1-\d+ .* done: /m;

let place: Place;
let env: NodeJS.ProcessEnv;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
  for (const dir of ['bin', 'tmp', 'store', 'waited']) fs.mkdirSync(path.join(place.dir, dir));
  fs.symlinkSync(BIN, path.join(place.dir, 'bin/capture'));
  env = {
    PATH: `${path.join(place.dir, 'bin')}:${process.env['PATH']}`,
    TMPDIR: path.join(place.dir, 'tmp'),
    STORE: place.store,
    CAPTURE_NOTICE: 'none',
  };
});
afterEach(() => place.close());

/** Six steps with a checkpoint after each. In the first attempt of an index it waits for its end half-way. */
const simulate = (): string => `#!/bin/sh
step=0 sum=0 waited=${place.dir}/waited/$CAPTURED_INDEX
[ ! -e state.chk ] || read -r step sum < state.chk
while [ $step -lt 6 ]; do
  step=$((step + 1)) sum=$((sum * 3 + step + CAPTURED_INDEX))
  echo "$step $sum" > state.chk
  if [ $step -eq 3 ] && [ ! -e $waited ]; then echo > $waited; exec sleep 600; fi
done
echo "$sum" > final.dat
`;
const resultOf = (index: number): string =>
  `${[1, 2, 3, 4, 5, 6].reduce((sum, step) => sum * 3 + step + index, 0)}\n`;

/** Kills it when a task waits and has a checkpoint in the store, and runs it again until its end: that task has resumed. */
async function killAndRepeat(start: () => Run, url: string): Promise<void> {
  const killed = start();
  const names = (): readonly string[] => fs.readdirSync(place.store, { recursive: true, encoding: 'utf8' });
  const waiting = (): string | undefined =>
    fs
      .readdirSync(path.join(place.dir, 'waited'))
      .find((index) =>
        names().some((name) => name.includes(`/${index}/`) && name.endsWith('.checkpoint.json')),
      );
  await until(() => waiting() !== undefined, 'a task waits half-way');
  const index = waiting() ?? '';
  killTree(killed.pid);
  await killed.status;
  // The others never wait.
  for (const other of [0, 1, 2, 3]) fs.writeFileSync(path.join(place.dir, 'waited', String(other)), '');
  const again = start();
  expect(await again.status, again.stderr()).toBe(0);
  const status = place.capture(['status', url, index]);
  expect(await status.status, status.stderr()).toBe(0);
  expect(status.stdout()).toMatch(RESUMED);
}

it('examples/jobs/array.yaml', async () => {
  fs.writeFileSync(place.at('simulate'), simulate(), { mode: 0o755 });
  const job = path.join(ROOT, 'examples/jobs/array.yaml');
  const start = (): Run =>
    place.exec(['capture', 'array', job, '--array', '0-1', '--to', place.store], { ...env });
  await killAndRepeat(start, `${place.store}/your-name/my-job`);
  for (const index of [0, 1]) expect(place.text(`your-name/my-job/final.dat.${index}`)).toBe(resultOf(index));
});

it('examples/spot/user-data.sh', async () => {
  fs.writeFileSync(path.join(place.store, 'simulate'), simulate());
  fs.writeFileSync(path.join(place.store, 'capture-sidecar-0.1.0.tgz'), '');
  const scripts = { aws: 'case $1$2$4 in s3cp.) cp "$3" . ;; esac', npm: '', shutdown: '' };
  for (const [name, script] of Object.entries(scripts))
    fs.writeFileSync(path.join(place.dir, 'bin', name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const script = fs
    .readFileSync(path.join(ROOT, 'examples/spot/user-data.sh'), 'utf8')
    .replace('--array 0-999', '--array 0-3');
  await killAndRepeat(() => place.exec(['sh', '-c', script], env), `${place.store}/run1`);
  for (const index of [0, 1, 2, 3]) expect(place.text(`run1/final.dat.${index}`)).toBe(resultOf(index));
  const status = place.capture(['status', `${place.store}/run1`, '--array', '0-3']);
  expect(await status.status, status.stderr()).toBe(0);
  expectOutputOf('spot', status.stdout());
});

it('examples/loop/loop.sh', async () => {
  fs.cpSync(path.join(ROOT, 'examples'), path.join(place.dir, 'examples'), { recursive: true });
  const heat = simulate().replaceAll('state.chk', 'heat.chk');
  fs.writeFileSync(path.join(place.dir, 'examples/demo/heat.mjs'), heat, { mode: 0o755 });
  const loop = [path.join(place.dir, 'examples/loop/loop.sh'), place.store];
  await killAndRepeat(() => place.exec(loop, env), place.store);
  for (const index of [0, 1, 2, 3]) expect(place.text(`final.dat.${index}`)).toBe(resultOf(index));
});
