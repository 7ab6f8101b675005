import { describe, expect, it } from 'vitest';
import { slurmJob, waitingBatchShell } from '../../src/scheduler/slurm-job.ts';

describe('the job', () => {
  it.each<[string, NodeJS.ProcessEnv, object | undefined]>([
    ['is none outside of Slurm', {}, undefined],
    ['is its id', { SLURM_JOB_ID: '7' }, { id: '7', restarts: 0 }],
    [
      'is array and index, even where the id is that of the array',
      { SLURM_JOB_ID: '7', SLURM_ARRAY_JOB_ID: '7', SLURM_ARRAY_TASK_ID: '3', SLURM_RESTART_COUNT: '2' },
      { id: '7_3', restarts: 2 },
    ],
  ])('%s', (_, env, job) => expect(slurmJob(env)).toEqual(job));
});

describe('the shell of the batch script', () => {
  // CHLD and INT, as bash and dash have them while they wait.
  const WAITING = 0x10002n;
  const TRAPS_TERM = WAITING | (1n << 14n);
  const TRAPS_USR1 = WAITING | (1n << 9n);
  const SCRIPT = '/var/spool/slurmd/job00007/slurm_script';

  it.each<[string, readonly string[], bigint, boolean]>([
    ['only waits', ['/bin/bash', SCRIPT], WAITING, true],
    ['only waits, with options and arguments', ['/bin/bash', '-l', SCRIPT, 'a'], WAITING, true],
    ['is sbatch --wrap', ['/bin/sh', SCRIPT], WAITING, true],
    ['passes TERM on by itself', ['/bin/bash', SCRIPT], TRAPS_TERM, false],
    ['passes USR1 on by itself', ['/bin/bash', SCRIPT], TRAPS_USR1, false],
    ['is a Python program', ['/usr/bin/python3', SCRIPT], WAITING, false],
    ['is another script', ['/bin/bash', './run.sh', 'slurm_script'], WAITING, false],
    ['is gone: capture was execed, or srun started it', ['slurmstepd: [7.batch]'], 0n, false],
  ])('%s', (_, argv, catches, warned) => {
    expect(waitingBatchShell({ argv, catches }) !== undefined).toBe(warned);
  });

  it('is not known without /proc', () => expect(waitingBatchShell(undefined)).toBeUndefined());
});
