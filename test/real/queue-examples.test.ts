// The files of examples/queue. The pilot job in a real Slurm: it gives its tasks back when Slurm says that its time is nearly
// over, and the next one ends them; a task of the queue is no task of Slurm's array, whatever its environment says. The
// unit, as systemd reads it.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN } from '../e2e/support.ts';
import { expectOutputOf } from '../examples/expected.ts';
import { attemptsIn, resultOf, STEPS } from '../many/support.ts';
import { type Lab, openLab } from './lab.ts';
import { type Job, slurm, stateOf, submit } from './slurm/cluster.ts';

const PILOT = path.resolve('examples/queue/pilot.sbatch');
const UNIT = path.resolve('examples/queue/capture-worker.service');

let lab: Lab;
beforeEach(async () => {
  lab = await openLab();
});
afterEach(() => lab.close());

/** Of an array, with an index that no task of the queue has. */
function startPilot(): Promise<Job> {
  const { place, redis } = lab;
  const env = {
    PATH: `${path.resolve('bin')}:${process.env['PATH']}`,
    CAPTURE_QUEUE: redis.url('lab'),
    CAPTURE_SCRATCH: place.dir,
    CAPTURE_JOBS: '2',
  };
  return submit({ dir: place.dir, options: ['--partition=side'], script: [PILOT], env, index: 7 });
}

/** As `--signal=B:TERM@180` does three minutes before the end; no limit of Slurm is short enough to wait for. */
const warn = (job: Job): Promise<string> => slurm('scancel', '--batch', '--signal=TERM', job.id);

it('a pilot job checkpoints and gives back what it runs, and the next one goes on', async () => {
  const files = ['-r', 'result.dat', '-k', 'state.chk', '--memory', '64MiB'];
  await lab.submit('slow', ['--array', '0-3', ...files], [STEPS, '{index}', '1']);
  const first = await startPilot();
  const isStored = (key: string): boolean => key.includes('state.chk');
  await lab.untilStatus(({ running }) => running.length === 2 && lab.place.keys().some(isStored));
  await warn(first);
  expect(await first.ended(), first.output()).toBe(75);
  expect(await stateOf(first.id)).toBe('FAILED');
  expect(first.output()).toContain('SIGTERM: every task is told to checkpoint and end');
  expect((await lab.status()).submissions).toMatchObject([{ waiting: 4, running: 0, failed: 0 }]);

  const second = await startPilot();
  await lab.untilAll('over');
  await warn(second);
  expect(await second.ended(), second.output()).toBe(75);
  expectOutputOf('queue', (await lab.command('status')).stdout());
  const result = lab.results();
  for (const index of [0, 1, 2, 3]) expect(result(index)).toBe(resultOf(index));
  expect([...attemptsIn(lab.place, 'steps.sh').values()].toSorted((a, b) => a - b)).toEqual([1, 1, 2, 2]);
});

it('the unit is one that systemd understands', () => {
  const unit = path.join(lab.place.dir, path.basename(UNIT));
  fs.writeFileSync(unit, fs.readFileSync(UNIT, 'utf8').replace('/opt/capture/bin/capture', BIN));
  // An unknown key is a warning of it.
  const { status, stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
