// Real LAMMPS in a real Slurm, with the job script of examples/slurm: however Slurm ends an attempt, the next one
// goes on in a fresh directory, and what is stored in the end is what one uninterrupted run makes, bit for bit.
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectOutputOf } from '../examples/expected.ts';
import { stateOf as processState } from '../launch/harness.ts';
import { arrayEnded, nobodyLeft, processesOf, slurm, stateOf, submit, until } from './slurm/cluster.ts';
import { CAPTURE_MELT, LAMMPS, openMelt, SCRIPT, statusOf, type Melt } from './slurm/melt.ts';

const COMMITTED = /checkpoint \d+-\d+ is safe/;
/** The least time limit of Slurm is a minute, and it looks every 30 s: this melt takes two. */
const TWO_MINUTES_REST_S = 7;
const COUNT_TERMS = `exec capture -r x -- ${process.execPath} ${path.resolve('test/real/slurm/fixtures/count-terms.mjs')}`;

let melt: Melt;
beforeAll(async () => {
  melt = await openMelt();
});
afterAll(() => melt?.close());

/** The example's script as one task of an array. */
const one = { index: 5, options: ['--partition=side'], script: [SCRIPT, ...LAMMPS] };
const wrapped = (script: string, ...options: readonly string[]) => ({
  options: ['--partition=side', ...options, `--wrap=${script}`],
  script: [],
});

describe.concurrent('LAMMPS ends whole', { timeout: 300_000 }, () => {
  it('in all 8 tasks of an array of which 4 are preempted by a higher partition', async () => {
    const place = await melt.place('array');
    const job = await submit({ ...place, options: [], script: [SCRIPT, ...LAMMPS] });
    const tasks = [0, 1, 2, 3, 4, 5, 6, 7];
    await Promise.all(tasks.map((index) => job.says(COMMITTED, 1, index)));
    await submit({
      ...place,
      options: ['--partition=high', '--nodes=4', '--ntasks=4', '--wrap=sleep 1'],
      script: [],
    });
    await arrayEnded(job.id);
    const attempts = await Promise.all(
      tasks.map(async (index) => {
        await melt.expectWhole(place, index);
        return (await melt.lastRecords(place, index)).filter((record) => record.endsWith('started')).length;
      }),
    );
    expectOutputOf('slurm', await statusOf(place, '0-7'));
    expect(attempts.toSorted((a, b) => a - b)).toEqual([1, 1, 1, 1, 2, 2, 2, 2]);
    await nobodyLeft(place.url);
  });

  it('when its time limit comes, by --requeue slurm', async () => {
    const place = await melt.place('limit', TWO_MINUTES_REST_S);
    const job = await submit({ ...place, ...one, options: [...one.options, '--time=1'] });
    expect(await job.ended(), job.output()).toBe(0);
    expect(job.output()).toContain('DUE TO TIME LIMIT');
    expect(job.output()).toContain("exit 75: the job's time limit; ");
    expect(job.output()).toContain(`capture: job ${job.id} is requeued`);
    await melt.expectWhole(place, 5);
    await nobodyLeft(place.url);
  });

  it('under mpirun, when its time limit comes, by RequeueExit', async () => {
    const place = await melt.place('mpirun', TWO_MINUTES_REST_S);
    const script = `${CAPTURE_MELT} --preempted-status 99 -- mpirun -n 1 lmp -in in.melt -screen none ${LAMMPS.join(' ')}`;
    const job = await submit({ ...place, ...wrapped(script, '--time=1') });
    expect(await job.ended(), job.output()).toBe(0);
    expect(job.output()).toContain('DUE TO TIME LIMIT');
    expect(await melt.lastRecords(place, 0)).toContain('0001 preempted');
    await melt.expectWhole(place, 0);
    await nobodyLeft(place.url);
  });

  it('when a preemption with a grace period sends USR1, which is a notice', async () => {
    const place = await melt.place('usr1');
    // Less than the rest of the computation takes, however fast the machine is.
    const env = { ...place.env, CAPTURE_NOTICE_ON: 'USR1', CAPTURE_GRACE: '8s' };
    const options = ['--partition=grace', '--signal=B:USR1@60', '--time=10'];
    const job = await submit({ ...place, ...one, env, options });
    await job.says(COMMITTED);
    await submit({ ...place, options: ['--partition=over', '--nodelist=n8', '--wrap=sleep 1'], script: [] });
    expect(await job.ended(), job.output()).toBe(0);
    expect(job.output()).toContain(`capture: job ${job.id} is requeued`);
    // That would be the TERM at the end of the minute: there was nothing left to end.
    expect(job.output()).not.toContain('DUE TO PREEMPTION');
    expect(await melt.lastRecords(place, 5)).toContain('0001 preempted');
    await melt.expectWhole(place, 5, 1);
    await nobodyLeft(place.url);
  });

  it('when it is requeued by hand', async () => {
    const place = await melt.place('requeue');
    const job = await submit({ ...place, ...one });
    await job.says(COMMITTED);
    await slurm('scontrol', 'requeue', job.id);
    expect(await job.ended(), job.output()).toBe(0);
    expect(job.output()).toContain(`Slurm has requeued job ${job.id} already`);
    expect(job.output()).toContain('exit 75: Slurm requeued the job; ');
    expect(await melt.lastRecords(place, 5)).toContain('0001 preempted');
    await melt.expectWhole(place, 5);
    await nobodyLeft(place.url);
  });

  it('when it is cancelled, stays so, and is submitted again', async () => {
    const place = await melt.place('scancel');
    const again = wrapped(
      `${CAPTURE_MELT} --requeue slurm -- lmp -in in.melt -screen none ${LAMMPS.join(' ')}`,
    );
    const job = await submit({ ...place, ...again });
    await job.says(COMMITTED);
    await slurm('scancel', job.id);
    await job.ended();
    expect(await stateOf(job.id), job.output()).toBe('CANCELLED');
    await nobodyLeft(place.url);
    expect(job.output()).toContain(`job ${job.id} was cancelled: it is not requeued`);
    expect(job.output()).toContain('exit 75: the job was cancelled (scancel); ');
    const next = await submit({ ...place, ...again });
    expect(await next.ended(), next.output()).toBe(0);
    expect(next.output()).toMatch(/attempt 2 /);
    await melt.expectWhole(place, 0);
  });

  it('when it is suspended and resumed', async () => {
    const place = await melt.place('suspend');
    const job = await submit({ ...place, ...one });
    await job.says(COMMITTED);
    await slurm('scontrol', 'suspend', job.id);
    const states = (): string => processesOf(place.url).map(processState).join('');
    await until(
      () => /^T+$/.test(states()),
      () => `all processes of the job are stopped, not ${states()}`,
    );
    await slurm('scontrol', 'resume', job.id);
    expect(await job.ended(), job.output()).toBe(0);
    expect(await melt.lastRecords(place, 5)).toContain('0001 done');
    await melt.expectWhole(place, 5);
    await nobodyLeft(place.url);
  });
});

describe.concurrent('SIGTERM reaches the task once', { timeout: 300_000 }, () => {
  it.each<[string, (id: string, node: string) => Promise<unknown>]>([
    ['by scancel', (id) => slurm('scancel', id)],
    ['by scontrol requeue', (id) => slurm('scontrol', 'requeue', id)],
    ['by scancel to the batch script alone', (id) => slurm('scancel', '--batch', '--signal=TERM', id)],
    [
      'by preemption',
      (_, node) => slurm('sbatch', '--partition=over', `--nodelist=${node}`, '-o/dev/null', '--wrap=sleep 1'),
    ],
  ])('%s', async (how, end) => {
    const place = await melt.place(how.replaceAll(' ', '-'));
    const job = await submit({ ...place, ...wrapped(COUNT_TERMS) });
    await job.says(/^up$/m);
    const node = /NodeList=(n\d+)/.exec(await slurm('scontrol', '-o', 'show', 'job', job.id))?.[1] ?? '';
    await end(job.id, node);
    await job.says(/^TERM: \d+ times$/m);
    await job.ended();
    expect(job.output().match(/^TERM: .*$/gm)).toEqual(['TERM: 1 times']);
    await nobodyLeft(place.url);
  });
});

describe.concurrent('the warning of a batch script that only waits', { timeout: 300_000 }, () => {
  it.each([
    ['is said where it waits', 'capture -r x -- true; exit $?', 1],
    ['is not where it execs', 'exec capture -r x -- true', 0],
    ['is not in a step of srun', 'srun capture -r x -- true; exit $?', 0],
  ])('%s', async (name, script, times) => {
    const place = await melt.place(name.replaceAll(' ', '-'));
    const job = await submit({ ...place, ...wrapped(script) });
    expect(await job.ended(), job.output()).toBe(0);
    expect(job.output().match(/use 'exec capture/g) ?? [], job.output()).toHaveLength(times);
  });
});
