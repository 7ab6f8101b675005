// What the doctor says of scheduler and notices.
import { describe, expect, it } from 'vitest';
import { examineNotices, examineScheduler, type Job } from '../../src/doctor/job.ts';
import type { CloudProbe } from '../../src/notices/cloud-probe.ts';

const job = (env: NodeJS.ProcessEnv, audible: CloudProbe = { kind: 'no-cloud' }): Job => ({
  env,
  readText: () => 'ProcId = 4\nNumJobStarts = 2\n',
  probeCloud: async () => audible,
  askSlurm: async () => undefined,
});

describe('the scheduler', () => {
  it.each([
    [
      { SLURM_JOB_ID: '12', SLURM_ARRAY_JOB_ID: '11', SLURM_ARRAY_TASK_ID: '7', SLURM_RESTART_COUNT: '2' },
      { engine: 'Slurm', index: '7', attempt: '2', graceMs: 27_000 },
    ],
    [{ PBS_JOBID: '3' }, { engine: 'PBS', graceMs: 7000 }],
    [
      { AWS_BATCH_JOB_ID: 'a', AWS_BATCH_JOB_ARRAY_INDEX: '0', AWS_BATCH_JOB_ATTEMPT: '1' },
      { engine: 'AWS Batch', index: '0', attempt: '1', graceMs: 27_000 },
    ],
    [{ _CONDOR_JOB_AD: 'ad' }, { engine: 'HTCondor', index: '4', attempt: '2', graceMs: 27_000 }],
    [{}, { graceMs: 27_000 }],
  ])('in %j is %j', async (env, facts) => {
    const found = await examineScheduler(job(env));
    expect(found).toMatchObject({ level: 'ok', facts });
    expect(Object.keys(found.facts ?? {}).toSorted()).toEqual(Object.keys(facts).toSorted());
  });

  it.each([
    [6000, '--grace 3s'],
    [120_000, '--grace 117s'],
  ])(
    'that kills after %d ms and not after 30 s is told, with the grace that fits',
    async (killWaitMs, mend) => {
      const askSlurm: Job['askSlurm'] = async () => ({
        cluster: 'lab',
        hidesJobs: false,
        killWaitMs,
        minJobAgeMs: undefined,
      });
      const found = await examineScheduler({ ...job({ SLURM_JOB_ID: '12' }), askSlurm });
      expect(found).toMatchObject({ level: 'warn' });
      expect(found).toHaveProperty('mend', expect.stringContaining(mend));
      const outside = await examineScheduler({ ...job({}), askSlurm });
      expect(outside).toMatchObject({ level: 'ok' });
    },
  );

  it('with an index that no key can have is a failure', async () => {
    expect(await examineScheduler(job({ JOB_ARRAY_INDEX: 'a b' }))).toMatchObject({ level: 'fail' });
  });

  it('that has started us as one of several ranks is a failure', async () => {
    const found = await examineScheduler(job({ SLURM_JOB_ID: '1', SLURM_STEP_ID: '0', SLURM_NTASKS: '4' }));
    expect(found).toMatchObject({ level: 'fail', mend: 'capture ... -- srun ./task' });
  });
});

describe('notices', () => {
  it.each([
    [{ kind: 'no-cloud' }, 'ok', undefined],
    [{ kind: 'heard', cloud: 'ec2' }, 'ok', undefined],
    [{ kind: 'slow', cloud: 'azure' }, 'warn', expect.stringContaining('two minutes')],
    [{ kind: 'silent', cloud: 'ec2', why: 'no token', hint: 'allow a hop' }, 'warn', 'allow a hop'],
    [
      { kind: 'silent', cloud: 'gce', why: 'none', hint: undefined },
      'warn',
      expect.stringContaining('file:'),
    ],
  ] as const)('of %j are %s', async (audible, level, mend) => {
    expect(await examineNotices(job({}, audible))).toMatchObject({
      level,
      ...(mend && { mend: mend as string }),
    });
  });
});
