// Real LAMMPS in a real Slurm, with the job script of examples/slurm: however Slurm ends an attempt, the next one
// goes on in a fresh directory, and what is stored in the end is what one uninterrupted run makes, bit for bit.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { arrayEnded, nobodyLeft, submit } from './slurm/cluster.ts';
import { LAMMPS, openMelt, SCRIPT, type Melt } from './slurm/melt.ts';

const COMMITTED = /checkpoint \d+-\d+ is safe/;

let melt: Melt;
beforeAll(async () => {
  melt = await openMelt();
});
afterAll(() => melt?.close());

describe.concurrent('a job script that execs capture', () => {
  it('ends whole in all 8 tasks of an array of which 4 are preempted by a higher partition', async () => {
    const place = await melt.place('array');
    const job = await submit({ ...place, options: [], script: [SCRIPT, ...LAMMPS] });
    const tasks = [0, 1, 2, 3, 4, 5, 6, 7];
    await Promise.all(tasks.map((index) => job.says(COMMITTED, 1, index)));
    const high = await submit({
      ...place,
      options: ['--partition=high', '--nodes=4', '--ntasks=4', '--wrap=sleep 1'],
      script: [],
    });
    await arrayEnded(job.id);
    const attempts = await Promise.all(
      tasks.map(async (index) => {
        expect(job.output(index)).not.toContain('use exec');
        await melt.expectWhole(place, index);
        return (await melt.lastRecords(place, index)).filter((record) => record.endsWith('started')).length;
      }),
    );
    expect(
      attempts.toSorted((a, b) => a - b),
      job.output(0),
    ).toEqual([1, 1, 1, 1, 2, 2, 2, 2]);
    expect(high.id).not.toBe('');
    await nobodyLeft(`CAPTURE_TO=${place.url}`);
  });
});
