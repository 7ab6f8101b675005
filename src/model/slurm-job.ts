// What Slurm says about our own job at its end, and whether to requeue it then. Pure.

/** Our job: `<array job>_<index>` for a task of an array, as scontrol(1) takes it. */
export interface SlurmJob {
  readonly id: string;
  /** How often it was requeued before this attempt (SLURM_RESTART_COUNT). */
  readonly restarts: number;
}

/** `requeued`: Slurm did so itself. `ended`: somebody has ended the job, for instance with scancel. */
export type RequeueRule = 'requeue' | 'requeued' | 'ended';

/**
 * `shown` is the line of `scontrol -o show job`. A job that Slurm is ending is COMPLETING whatever the cause. Then
 * Restarts has grown if it will start again (preemption, scontrol requeue), Reason is TimeLimit at the time limit,
 * and PreemptTime is set if a higher job takes the place of one that is not to be requeued. What remains is scancel:
 * a job that its user has ended must not come back. (Measured on Slurm 22.05.)
 */
export function requeueRule(shown: string, { restarts }: SlurmJob): RequeueRule {
  const value = (name: string): string | undefined => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(shown)?.[1];
  if (Number(value('Restarts')) > restarts) return 'requeued';
  const state = value('JobState');
  if (state === 'CANCELLED') return 'ended';
  if (state !== 'COMPLETING') return 'requeue';
  // Local times in ISO 8601, or None; one from before the start is of an earlier attempt.
  const [started = '', preempted = ''] = [value('StartTime'), value('PreemptTime')];
  const isPreempted = /^\d/.test(preempted) && preempted >= started;
  return value('Reason') === 'TimeLimit' || isPreempted ? 'requeue' : 'ended';
}
