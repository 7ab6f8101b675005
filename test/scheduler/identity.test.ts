import { describe, expect, it } from 'vitest';
import { identify } from '../../src/scheduler/identity.ts';

const noFile = (): string => {
  throw new Error('no such file');
};
const indexOf = (env: Record<string, string>) => {
  const found = identify(env, undefined, noFile);
  return 'message' in found ? found.message : [found.index, found.source];
};

describe('the index', () => {
  it.each([
    [{ SLURM_ARRAY_TASK_ID: '7', SLURM_JOB_ID: '1' }, '7', 'SLURM_ARRAY_TASK_ID'],
    [{ AWS_BATCH_JOB_ARRAY_INDEX: '0' }, '0', 'AWS_BATCH_JOB_ARRAY_INDEX'],
    [{ JOB_COMPLETION_INDEX: '2' }, '2', 'JOB_COMPLETION_INDEX'],
    [{ PBS_ARRAY_INDEX: '4', PBS_JOBID: '12[4].srv' }, '4', 'PBS_ARRAY_INDEX'],
    [{ PBS_ARRAYID: '4' }, '4', 'PBS_ARRAYID'],
    [{ LSB_JOBINDEX: '3', LSB_JOBNAME: 'sweep[3]' }, '3', 'LSB_JOBINDEX'],
    [{ LSB_JOBINDEX: '0', LSB_JOBNAME: 'single' }, undefined, undefined],
    [{ LSB_JOBINDEX: '0' }, undefined, undefined],
    [{ SGE_TASK_ID: '1' }, '1', 'SGE_TASK_ID'],
    [{ SGE_TASK_ID: 'undefined' }, undefined, undefined],
    [{ BATCH_TASK_INDEX: '0' }, '0', 'BATCH_TASK_INDEX'],
    [{ NOMAD_ALLOC_INDEX: '5' }, '5', 'NOMAD_ALLOC_INDEX'],
    [{ FLUX_JOB_CC: '6' }, '6', 'FLUX_JOB_CC'],
    [{ HQ_TASK_ID: '8' }, '8', 'HQ_TASK_ID'],
    [{ PARALLEL_SEQ: '9' }, '9', 'PARALLEL_SEQ'],
    [{ JOB_ARRAY_INDEX: 'north_7' }, 'north_7', 'JOB_ARRAY_INDEX'],
    [{ SLURM_JOB_ID: '1' }, undefined, undefined],
    [{ SLURM_ARRAY_TASK_ID: '' }, undefined, undefined],
    [{}, undefined, undefined],
  ])('in %j is %j', (env, index, source) => {
    expect(indexOf(env)).toEqual([index, source]);
  });

  it.each([
    [{ PARALLEL_SEQ: '9', SLURM_ARRAY_TASK_ID: '1' }, 'PARALLEL_SEQ'],
    [{ HQ_TASK_ID: '8', SLURM_ARRAY_TASK_ID: '1' }, 'HQ_TASK_ID'],
    [{ SLURM_ARRAY_TASK_ID: '1', JOB_ARRAY_INDEX: '2' }, 'SLURM_ARRAY_TASK_ID'],
    [{ SGE_TASK_ID: 'undefined', JOB_ARRAY_INDEX: '2' }, 'JOB_ARRAY_INDEX'],
  ])('of the inner engine counts in %j', (env, source) => {
    expect(indexOf(env)).toContain(source);
  });

  it('that is given wins over every scheduler', () => {
    const found = identify({ SLURM_ARRAY_TASK_ID: '7' }, { value: 'a-1', source: '--index' }, noFile);
    expect(found).toMatchObject({ index: 'a-1', source: '--index', scheduler: { SLURM_ARRAY_TASK_ID: '7' } });
  });

  it.each(['', 'a b', 'a/b', '3.4', 'x'.repeat(65), '$SLURM_ARRAY_TASK_ID'])(
    'is refused when it is %j',
    (value) => {
      expect(identify({}, { value, source: '--index' }, noFile)).toMatchObject({
        message: expect.stringContaining('--index'),
        hint: expect.stringContaining('--index 3'),
      });
    },
  );

  it('of a variable that a key cannot take is refused, with its name', () => {
    expect(indexOf({ JOB_ARRAY_INDEX: 'a/b' })).toContain("JOB_ARRAY_INDEX 'a/b'");
  });

  it('comes from the job ad in HTCondor', () => {
    const ad = 'Foo = 1\nProcId = 12\nclusterid = 345\nJobBatchName = "my sweep"\nNumJobStarts = 2\n';
    const found = identify({ _CONDOR_JOB_AD: '/ad' }, undefined, (file) => (file === '/ad' ? ad : ''));
    expect(found).toEqual({
      index: '12',
      source: 'ProcId in $_CONDOR_JOB_AD',
      scheduler: { ProcId: '12', ClusterId: '345', JobBatchName: 'my sweep', NumJobStarts: '2' },
      engine: { name: 'HTCondor', attempt: { value: '2', source: 'NumJobStarts' } },
    });
  });

  it('is none when the job ad cannot be read', () => {
    expect(identify({ _CONDOR_JOB_AD: '/ad' }, undefined, noFile)).toEqual({
      index: undefined,
      source: undefined,
      scheduler: {},
      engine: undefined,
    });
  });
});

describe("the schedulers' own names", () => {
  it('are recorded for every engine that is there', () => {
    const env = {
      PARALLEL_SEQ: '9',
      PARALLEL_PID: '77',
      SLURM_JOB_ID: '5',
      SLURM_RESTART_COUNT: '1',
      HOME: '/root',
    };
    expect(identify(env, undefined, noFile)).toMatchObject({
      scheduler: { PARALLEL_SEQ: '9', PARALLEL_PID: '77', SLURM_JOB_ID: '5', SLURM_RESTART_COUNT: '1' },
    });
  });

  it('are not taken from JOB_ID and JOB_NAME alone, which may be anybody’s', () => {
    expect(identify({ JOB_ID: '1', JOB_NAME: 'ci' }, undefined, noFile)).toMatchObject({ scheduler: {} });
    expect(identify({ JOB_ID: '1', SGE_TASK_ID: '2' }, undefined, noFile)).toMatchObject({
      scheduler: { JOB_ID: '1', SGE_TASK_ID: '2' },
    });
  });
});
