// The arrays of examples/dependent-arrays in a real Slurm: each task of the second one begins when the first one's task of the
// same index is done, also if that was preempted and requeued, and takes its result.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type Engine, openEngine } from '../examples/stand-in.ts';
import { slurm, stateOf, until } from './slurm/cluster.ts';

const INDICES = [0, 1, 2, 3];

let engine: Engine;
beforeEach(() => {
  engine = openEngine('dependent-arrays');
});
afterEach(() => engine.place.close());

it('each task of the second array takes the result of the same index', async () => {
  const { place, env } = engine;
  for (const name of ['submit.sh', 'melt.sbatch', 'analyse.sbatch'])
    fs.writeFileSync(path.join(place.dir, name), engine.textOf(name), { mode: 0o755 });
  engine.hold(1, 2);
  const output = `--output=${place.dir}/output.%x.%a`;
  const submit = place.exec([path.join(place.dir, 'submit.sh'), '--partition=side', output], {
    ...env,
    CAPTURE_COMPRESSION: 'none',
    SLURM_CONF: process.env['SLURM_CONF'],
  });
  expect(await submit.status, submit.stderr()).toBe(0);
  const [melt = '', analyse = ''] = submit.stdout().trim().split(' ');
  const outputs = (): string =>
    fs
      .readdirSync(place.dir)
      .filter((name) => name.startsWith('output.'))
      .map((name) => `${name}:\n${fs.readFileSync(path.join(place.dir, name), 'utf8')}`)
      .join('\n');
  const summary = (index: number): string => path.join(place.store, analyse, `summary.txt.${index}`);

  await Promise.all([1, 2].map(engine.untilHalf));
  await until(() => fs.existsSync(summary(0)) && fs.existsSync(summary(3)), outputs);
  await slurm('scancel', '--batch', '--signal=TERM', `${melt}_1`);
  await slurm('scontrol', 'requeue', `${melt}_2`);
  await until(async () => (await slurm('squeue', '--noheader', `--jobs=${melt},${analyse}`)) === '', outputs);

  for (const index of INDICES) {
    expect(await stateOf(`${analyse}_${index}`), outputs()).toBe('COMPLETED');
    expect(fs.readFileSync(summary(index), 'utf8')).toBe('1 final.data\n');
  }
  await engine.expectDone(melt, INDICES);
});
