// Real LAMMPS in a real Grid Engine, with the job script of examples/gridengine: a task that is rescheduled half-way gets
// its notice, is put back into the queue by its exit status, and resumes.
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectOutputOf } from '../examples/expected.ts';
import { openGridEngine, type GridEngine } from './gridengine.ts';
import { nobodyLeft, until } from './slurm/cluster.ts';
import { LAMMPS, openMelt, statusOf, type Melt } from './slurm/melt.ts';

const SCRIPT = path.resolve('examples/gridengine/array.sge');
const INDICES = [1, 2, 3, 4];
/** After each checkpoint: the task must still run when Grid Engine stops it. */
const REST_S = 1;

let melt: Melt;
let engine: GridEngine;
beforeAll(async () => {
  melt = await openMelt();
  engine = await openGridEngine((await melt.place('cell')).dir);
});
afterAll(async () => {
  await engine?.close();
  await melt?.close();
});

it('LAMMPS ends whole in an array of which one task is rescheduled', async () => {
  const place = await melt.place('gridengine', REST_S);
  const submit = ['qsub', '-terse', '-V', '-wd', place.dir, SCRIPT, ...LAMMPS];
  const [job = ''] = engine.command(submit, { ...place.env, CAPTURE_GRACE: '3s' }).split('.');
  const outputOf = (index: number): string => {
    const file = path.join(place.dir, `melt.o${job}.${index}`);
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '';
  };
  await until(
    () => /checkpoint \d+-\d+ is safe/.test(outputOf(2)),
    () => `task 2 has a checkpoint: ${engine.command(['qstat', '-j', job])}\n${outputOf(2)}`,
  );
  engine.command(['qmod', '-rj', `${job}.2`]);
  await until(
    () => engine.command(['qstat']) === '',
    () => `the job is over: ${engine.command(['qstat'])}\n${INDICES.map(outputOf).join('\n')}`,
  );
  expect(outputOf(2)).toContain('SIGUSR2 says that we are stopped soon');
  expect(outputOf(2)).toMatch(/exit 99\b/);
  expect(outputOf(2)).toMatch(/attempt 2 [^]*resumed from checkpoint 1-\d+/);
  for (const index of INDICES) await melt.expectWhole(place, index);
  expectOutputOf('gridengine', await statusOf(place, '1-4'));
  await nobodyLeft(place.url);
});
