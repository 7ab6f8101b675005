// What Slurm says about our own job when it ends, and whether to requeue it. Pure.

/** Our own job. An array task is `<array job>_<index>`, as scontrol(1) takes it. */
export interface SlurmJob {
  readonly id: string;
  /** How often Slurm had requeued the job before this attempt (SLURM_RESTART_COUNT). */
  readonly restarts: number;
}

/** `requeued`: Slurm has requeued it. `ended`: somebody ended the job, for instance with scancel. */
export type RequeueRule = 'requeue' | 'requeued' | 'ended';

/**
 * `shown` is the line of `scontrol -o show job`. A job that Slurm is ending is COMPLETING, whatever the cause.
 * Restarts has grown if the job will start again (preemption, scontrol requeue). Reason is TimeLimit at the time
 * limit. PreemptTime is set if a higher-priority job replaces one that is not to be requeued. Anything else is
 * scancel: a job that its user has ended must stay ended. (Measured on Slurm 22.05.)
 */
export function requeueRule(shown: string, { restarts }: SlurmJob): RequeueRule {
  const value = (name: string): string | undefined => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(shown)?.[1];
  if (Number(value('Restarts')) > restarts) return 'requeued';
  const state = value('JobState');
  if (state === 'CANCELLED') return 'ended';
  if (state !== 'COMPLETING') return 'requeue';
  // Local times in ISO 8601, or None. A PreemptTime before StartTime belongs to an earlier attempt.
  const [started = '', preempted = ''] = [value('StartTime'), value('PreemptTime')];
  const isPreempted = /^\d/.test(preempted) && preempted >= started;
  return value('Reason') === 'TimeLimit' || isPreempted ? 'requeue' : 'ended';
}
