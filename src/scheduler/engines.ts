// The environment variables by which each engine says which task of an array this is. Only data; identity.ts reads it.
// The names are the vendors'. Where a value means "not an array", it says so here.

export interface Engine {
  /** The variable that holds the index. */
  readonly index: string;
  /** Values of the index that mean "no array". */
  readonly none?: (index: string, env: NodeJS.ProcessEnv) => boolean;
  /** Job id, job name, attempt: only recorded. */
  readonly recorded: readonly string[];
}

/** Inner engines first: GNU parallel inside a Slurm job has the variables of both, and each task its own index. */
export const ENGINES: readonly Engine[] = [
  // GNU parallel
  { index: 'PARALLEL_SEQ', recorded: ['PARALLEL_PID', 'PARALLEL_SEQ'] },
  // HyperQueue
  { index: 'HQ_TASK_ID', recorded: ['HQ_JOB_ID', 'HQ_TASK_ID', 'HQ_INSTANCE_ID'] },
  // Flux
  { index: 'FLUX_JOB_CC', recorded: ['FLUX_JOB_ID', 'FLUX_JOB_CC'] },
  // Slurm
  {
    index: 'SLURM_ARRAY_TASK_ID',
    recorded: [
      'SLURM_ARRAY_JOB_ID',
      'SLURM_ARRAY_TASK_ID',
      'SLURM_JOB_ID',
      'SLURM_JOB_NAME',
      'SLURM_RESTART_COUNT',
    ],
  },
  // PBS Pro, OpenPBS
  {
    index: 'PBS_ARRAY_INDEX',
    recorded: ['PBS_ARRAY_ID', 'PBS_ARRAY_INDEX', 'PBS_JOBID', 'PBS_JOBNAME'],
  },
  // Torque
  { index: 'PBS_ARRAYID', recorded: ['PBS_ARRAYID', 'PBS_JOBID', 'PBS_JOBNAME'] },
  // LSF
  {
    index: 'LSB_JOBINDEX',
    // Set to 0 in a job that is no array; only the name of an array's task ends in brackets.
    none: (index, env) => index === '0' || !(env['LSB_JOBNAME'] ?? '[').includes('['),
    recorded: ['LSB_JOBID', 'LSB_JOBINDEX', 'LSB_JOBNAME'],
  },
  // Grid Engine
  {
    index: 'SGE_TASK_ID',
    none: (index) => index === 'undefined',
    recorded: ['SGE_TASK_ID', 'JOB_ID', 'JOB_NAME', 'RESTARTED'],
  },
  // AWS Batch
  {
    index: 'AWS_BATCH_JOB_ARRAY_INDEX',
    recorded: ['AWS_BATCH_JOB_ID', 'AWS_BATCH_JOB_ARRAY_INDEX', 'AWS_BATCH_JOB_ATTEMPT'],
  },
  // Google Batch
  {
    index: 'BATCH_TASK_INDEX',
    recorded: ['BATCH_JOB_UID', 'BATCH_JOB_ID', 'BATCH_TASK_INDEX', 'BATCH_TASK_RETRY_ATTEMPT'],
  },
  // Kubernetes, Indexed Job
  { index: 'JOB_COMPLETION_INDEX', recorded: ['JOB_COMPLETION_INDEX'] },
  // Nomad
  {
    index: 'NOMAD_ALLOC_INDEX',
    recorded: ['NOMAD_JOB_ID', 'NOMAD_JOB_NAME', 'NOMAD_ALLOC_INDEX'],
  },
];

/** What anybody may set for an engine that is not listed; asked last. */
export const GENERIC_INDEX = 'JOB_ARRAY_INDEX';
