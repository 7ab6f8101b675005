// What Slurm's programs answer, parsed strictly: an answer that is not understood says nothing. Pure.

/** From `scontrol show config`. */
export interface SlurmConfig {
  /** Job ids mean something only together with it. */
  readonly cluster: string;
  /** Users may be shown their own jobs only, so a job that is not shown may still run. */
  readonly hidesJobs: boolean;
  /** From SIGTERM to SIGKILL. */
  readonly killWaitMs: number | undefined;
  /** How long squeue still shows a job that has ended. */
  readonly minJobAgeMs: number | undefined;
}

/** Its lines are `Name   = value` (scontrol(1)); KillWait is `30 sec`. Undefined if it names no cluster. */
export function slurmConfig(text: string): SlurmConfig | undefined {
  const value = (name: string): string | undefined => new RegExp(`^${name} *= (.*?) *$`, 'm').exec(text)?.[1];
  const msOf = (name: string): number | undefined => {
    const seconds = /^(\d+) sec$/.exec(value(name) ?? '')?.[1];
    return seconds === undefined ? undefined : Number(seconds) * 1000;
  };
  const isPrivate = value('PrivateData')?.split(',');
  const cluster = value('ClusterName');
  if (cluster === undefined) return undefined;
  return {
    cluster,
    hidesJobs: isPrivate === undefined || isPrivate.includes('jobs'),
    killWaitMs: msOf('KillWait'),
    minJobAgeMs: msOf('MinJobAge'),
  };
}

/** All jobs, also those that have ended a short while ago, one element of an array a line. With its header. */
export const SQUEUE = ['--all', '--array', '--states=all', '--format=%A|%F|%K|%T'];

/** The same from the accounts, of these jobs, without their steps. */
export function sacct(jobs: readonly string[]): readonly string[] {
  return [
    '--noheader',
    '--allocations',
    '--parsable2',
    '--format=JobIDRaw,State',
    `--jobs=${jobs.join(',')}`,
  ];
}

export interface SlurmStates {
  /** Jobs that run or wait: `17`, and `12_5` if it is task 5 of array 12. */
  readonly alive: ReadonlySet<string>;
  readonly ended: ReadonlySet<string>;
}

/** What squeue prints for {@link SQUEUE}. Undefined without its header: then nothing says that it has asked Slurm. */
export function squeueStates(text: string): SlurmStates | undefined {
  return text.startsWith(SQUEUE_HEADER) ? slurmStates(text.slice(SQUEUE_HEADER.length)) : undefined;
}

const SQUEUE_HEADER = 'JOBID|ARRAY_JOB_ID|ARRAY_TASK_ID|STATE\n';

/**
 * The lines of squeue or sacct. Undefined if a line is anything else than `17|12|5|RUNNING`, `17|17|N/A|RUNNING` or
 * `17|CANCELLED by 1000`.
 */
export function slurmStates(text: string): SlurmStates | undefined {
  const alive = new Set<string>();
  const ended = new Set<string>();
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, id, array, task, state] =
      /^(\d+)(?:\|(\d+)\|(\d+|N\/A))?\|([A-Z_]+)(?: by \d+)?$/.exec(line) ?? [];
    if (id === undefined || state === undefined) return undefined;
    const into = ENDED_STATES.has(state) ? ended : alive;
    into.add(id);
    if (array !== undefined && task !== 'N/A') into.add(`${array}_${task}`);
  }
  return { alive, ended };
}

/** States in which nothing of the job runs, or will run again (squeue(1), JOB STATE CODES). */
const ENDED_STATES: ReadonlySet<string> = new Set([
  'BOOT_FAIL',
  'CANCELLED',
  'COMPLETED',
  'DEADLINE',
  'FAILED',
  'NODE_FAIL',
  'OUT_OF_MEMORY',
  'PREEMPTED',
  'TIMEOUT',
]);
