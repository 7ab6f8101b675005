// What Slurm says about our own job when it ends: why, and whether to requeue it. Pure.
import type { StopCause } from './stop-cause.ts';

/** Our own job. An array task is `<array job>_<index>`, as scontrol(1) takes it. */
export interface SlurmJob {
  readonly id: string;
  /** How often Slurm had requeued the job before this attempt (SLURM_RESTART_COUNT). */
  readonly restarts: number;
}

/**
 * For a shell. `scontrol requeue` ends every process of the job, and scontrol is one of them; so does Slurm when it ends
 * the job. It must live long enough to report its result (an ignored signal stays ignored through exec, execve(2)).
 */
export const SCONTROL_IGNORING_SIGNALS = 'trap "" TERM HUP; exec scontrol "$@"';

/** `requeued`: Slurm has requeued it. `ended`: somebody ended the job, for instance with scancel. */
export type RequeueRule = 'requeue' | 'requeued' | 'ended';

/** `shown` is the line of `scontrol -o show job`. A job that its user has ended must stay ended. */
export function requeueRule(shown: string, job: SlurmJob): RequeueRule {
  const cause = slurmCause(shown, job);
  if (cause === CANCELLED) return 'ended';
  return cause === REQUEUED ? 'requeued' : 'requeue';
}

const REQUEUED: StopCause = { why: 'requeued', reason: 'Slurm requeued the job' };
const CANCELLED: StopCause = { why: 'cancelled', reason: 'the job was cancelled (scancel)' };
const TIME_LIMIT: StopCause = { why: 'time limit', reason: "the job's time limit" };
const PREEMPTED: StopCause = { why: 'higher-priority job', reason: 'Slurm preempted the job' };

/**
 * Why Slurm ends the job; undefined: it does not. `shown` is the line of `scontrol -o show job`. A job that Slurm is
 * ending is COMPLETING, whatever the cause. Restarts has grown if the job will start again (preemption, scontrol
 * requeue). Reason is TimeLimit at the time limit. PreemptTime is set if a higher-priority job replaces one that is not
 * to be requeued. Anything else is scancel. (Measured on Slurm 22.05.)
 */
export function slurmCause(shown: string, { restarts }: SlurmJob): StopCause | undefined {
  const value = (name: string): string | undefined => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(shown)?.[1];
  if (Number(value('Restarts')) > restarts) return REQUEUED;
  const state = value('JobState');
  if (state === 'CANCELLED') return CANCELLED;
  // Local times in ISO 8601, or None. A PreemptTime before StartTime belongs to an earlier attempt.
  const [started = '', preempted = ''] = [value('StartTime'), value('PreemptTime')];
  const isPreempted = /^\d/.test(preempted) && preempted >= started;
  if (state !== 'COMPLETING') return isPreempted ? PREEMPTED : undefined;
  if (value('Reason') === 'TimeLimit') return TIME_LIMIT;
  return isPreempted ? PREEMPTED : CANCELLED;
}
