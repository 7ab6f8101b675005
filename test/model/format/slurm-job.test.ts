import { expect, it } from 'vitest';
import { requeueRule, type RequeueRule, slurmCause } from '../../../src/model/format/slurm-job.ts';

// As a real Slurm 22.05 shows a job to its own batch script.
it.each<[string, string, number, RequeueRule]>([
  ['a job that runs, such as after a signal', 'JobState=RUNNING Reason=None Restarts=0', 0, 'requeue'],
  ['the time limit', 'JobState=COMPLETING Reason=TimeLimit Restarts=0', 0, 'requeue'],
  ['the time limit of a restarted job', 'JobState=COMPLETING Reason=TimeLimit Restarts=2', 2, 'requeue'],
  ['what Slurm preempted and requeues', 'JobState=COMPLETING Reason=None Restarts=1', 0, 'requeued'],
  ['what it does so again', 'JobState=PENDING Reason=BeginTime Restarts=3', 2, 'requeued'],
  ['scancel', 'JobState=COMPLETING Reason=None Restarts=0', 0, 'ended'],
  [
    'scancel of a job that may be preempted',
    'JobState=COMPLETING Reason=None Restarts=0 StartTime=2026-11-20T17:17:05 PreemptTime=None',
    0,
    'ended',
  ],
  ['scancel of a restarted job', 'JobState=COMPLETING Reason=None Restarts=1', 1, 'ended'],
  ['a job that was cancelled', 'JobState=CANCELLED Reason=None Restarts=0', 0, 'ended'],
  [
    'preemption in a partition that cancels',
    'JobState=COMPLETING Reason=None Restarts=0 StartTime=2026-11-20T17:17:05 PreemptTime=2026-11-20T17:17:06',
    0,
    'requeue',
  ],
  [
    'scancel after a preemption of an earlier attempt',
    'JobState=COMPLETING Reason=None Restarts=1 StartTime=2026-11-20T17:27:05 PreemptTime=2026-11-20T17:17:06',
    1,
    'ended',
  ],
  ['a Slurm that says none of this', 'JobState=COMPLETE', 0, 'requeue'],
])('%s', (_, shown, restarts, rule) => {
  expect(requeueRule(`JobId=7 JobName=x ${shown} ExitCode=0:0\n`, { id: '7', restarts })).toBe(rule);
});

it.each([
  ['JobState=RUNNING Reason=None Restarts=0', undefined],
  ['JobState=RUNNING StartTime=2026-11-20T17:17:05 PreemptTime=2026-11-20T17:17:06', 'higher-priority job'],
  ['JobState=COMPLETING Reason=TimeLimit Restarts=0', 'time limit'],
  ['JobState=COMPLETING Reason=None Restarts=1', 'requeued'],
  ['JobState=COMPLETING Reason=None Restarts=0', 'cancelled'],
  [
    'JobState=COMPLETING StartTime=2026-11-20T17:17:05 PreemptTime=2026-11-20T17:17:06',
    'higher-priority job',
  ],
  ['JobState=COMPLETE', undefined],
])('%s: the cause is %s', (shown, why) => {
  expect(slurmCause(`JobId=7 ${shown}\n`, { id: '7', restarts: 0 })?.why).toBe(why);
});
