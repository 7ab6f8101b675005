import { describe, expect, it } from 'vitest';
import { slurmConfig, slurmStates, squeueStates } from '../../src/scheduler/slurm-answers.ts';

describe('slurmConfig', () => {
  const CONFIG = `Configuration data as of 2026-11-27T12:00:00
ClusterName             = lab
KillWait                = 6 sec
PrivateData             = none
MinJobAge               = 300 sec
`;

  it('reads the cluster, who may see jobs, the time from SIGTERM to SIGKILL, and how long ended jobs are shown', () => {
    expect(slurmConfig(CONFIG)).toEqual({
      cluster: 'lab',
      hidesJobs: false,
      killWaitMs: 6000,
      minJobAgeMs: 300_000,
    });
    expect(slurmConfig(CONFIG.replace('none', 'accounts,jobs'))).toMatchObject({ hidesJobs: true });
  });

  it('assumes that jobs are hidden, and does not know the time, if it cannot tell', () => {
    expect(slurmConfig('ClusterName = lab\nNotKillWait = 6 sec\n')).toEqual({
      cluster: 'lab',
      hidesJobs: true,
      killWaitMs: undefined,
      minJobAgeMs: undefined,
    });
    expect(slurmConfig('KillWait = 6 sec\n')).toBeUndefined();
  });
});

describe('slurmStates', () => {
  it('tells jobs that run or wait from those that have ended, by job and by task of an array', () => {
    expect(slurmStates('17|12|5|RUNNING\n12|12|6|PENDING\n18|18|N/A|COMPLETED\n19|12|4|NODE_FAIL\n')).toEqual(
      {
        alive: new Set(['17', '12_5', '12', '12_6']),
        ended: new Set(['18', '19', '12_4']),
      },
    );
    expect(slurmStates('17|CANCELLED by 1000\n18|COMPLETING\n')).toEqual({
      alive: new Set(['18']),
      ended: new Set(['17']),
    });
  });

  it.each(['JOBID|STATE\n', '17|12|5|RUNNING\n\u001B[0m\n', '17 RUNNING\n', '17|\n', '17|12|5-9|PENDING\n'])(
    'does not guess what %j means',
    (text) => expect(slurmStates(text)).toBeUndefined(),
  );
});

describe('squeueStates', () => {
  const HEADER = 'JOBID|ARRAY_JOB_ID|ARRAY_TASK_ID|STATE\n';

  it('believes that there is no job, or no other one, if the header says that squeue has asked', () => {
    expect(squeueStates(HEADER)).toEqual({ alive: new Set(), ended: new Set() });
    expect(squeueStates(`${HEADER}17|17|N/A|RUNNING\n`)).toMatchObject({ alive: new Set(['17']) });
  });

  it.each(['', '\n', '17|17|N/A|RUNNING\n', 'JOBID|STATE\n', `${HEADER}17 RUNNING\n`])(
    'does not believe %j',
    (text) => expect(squeueStates(text)).toBeUndefined(),
  );
});
