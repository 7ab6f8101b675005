// How long the platform lets a task live after SIGTERM, by its environment variables. Pure. These are the platforms'
// defaults; users of a site that has changed them give --grace.

interface Platform {
  readonly variable: string;
  /** From SIGTERM to SIGKILL. */
  readonly killAfterMs: number;
}

const PLATFORMS: readonly Platform[] = [
  // slurm.conf(5), KillWait.
  { variable: 'SLURM_JOB_ID', killAfterMs: 30_000 },
  // Pod specification, terminationGracePeriodSeconds.
  { variable: 'KUBERNETES_SERVICE_HOST', killAfterMs: 30_000 },
  // Queue attribute kill_delay.
  { variable: 'PBS_JOBID', killAfterMs: 10_000 },
  // lsb.params, JOB_TERMINATE_INTERVAL.
  { variable: 'LSB_JOBID', killAfterMs: 10_000 },
  // Task option kill_timeout.
  { variable: 'NOMAD_ALLOC_ID', killAfterMs: 5000 },
  // flux-config-exec(5), kill-timeout.
  { variable: 'FLUX_JOB_ID', killAfterMs: 5000 },
];

const ELSEWHERE_MS = 30_000;
/** Reserved for the last record and for the exit itself. */
const MARGIN_MS = 3000;

/** The grace without --grace, ms: the platform's, or the shortest of several, less 3 s. */
export function defaultGraceMs(env: NodeJS.ProcessEnv): number {
  const found = PLATFORMS.filter(({ variable }) => (env[variable] ?? '') !== '').map(
    ({ killAfterMs }) => killAfterMs,
  );
  return graceOf(found.length === 0 ? ELSEWHERE_MS : Math.min(...found));
}

/** The grace where SIGKILL comes so long after SIGTERM, ms. */
export function graceOf(killAfterMs: number): number {
  return killAfterMs - MARGIN_MS;
}
