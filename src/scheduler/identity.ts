// Which task of the array this is: --index says so, or what the scheduler put into the environment. Reads nothing but
// what it is given. The attempt is claimed in the store; the scheduler's count is only recorded.
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';

/** Of what an index may be made: it stands in object keys. */
export const INDEX = /^[A-Za-z0-9_-]{1,64}$/;
/** Attributes of a ClassAd that are recorded; their names are case-insensitive. */
const CONDOR_NAMES = ['ProcId', 'ClusterId', 'NumJobStarts', 'JobBatchName'] as const;

/**
 * The environment variables by which an engine says which task of an array this is. The names are the vendors'. Where a
 * value means "not an array", it says so here.
 */
interface Engine {
  readonly name: string;
  /** The variable that holds the index. */
  readonly index: string;
  /** Values of the index that mean "no array". */
  readonly none?: (index: string, env: NodeJS.ProcessEnv) => boolean;
  /** Job id, job name, attempt: only recorded. */
  readonly recorded: readonly string[];
  /** Which of them says how often this task was started, or started again. */
  readonly attempt?: string;
}

/** Inner engines first: GNU parallel inside a Slurm job has the variables of both, and each task its own index. */
const ENGINES: readonly Engine[] = [
  { name: 'GNU parallel', index: 'PARALLEL_SEQ', recorded: ['PARALLEL_PID', 'PARALLEL_SEQ'] },
  {
    name: 'HyperQueue',
    index: 'HQ_TASK_ID',
    recorded: ['HQ_JOB_ID', 'HQ_TASK_ID', 'HQ_INSTANCE_ID'],
    attempt: 'HQ_INSTANCE_ID',
  },
  { name: 'Flux', index: 'FLUX_JOB_CC', recorded: ['FLUX_JOB_ID', 'FLUX_JOB_CC'] },
  {
    name: 'Slurm',
    index: 'SLURM_ARRAY_TASK_ID',
    recorded: [
      'SLURM_ARRAY_JOB_ID',
      'SLURM_ARRAY_TASK_ID',
      'SLURM_JOB_ID',
      'SLURM_JOB_NAME',
      'SLURM_RESTART_COUNT',
    ],
    attempt: 'SLURM_RESTART_COUNT',
  },
  {
    name: 'PBS',
    index: 'PBS_ARRAY_INDEX',
    recorded: ['PBS_ARRAY_ID', 'PBS_ARRAY_INDEX', 'PBS_JOBID', 'PBS_JOBNAME'],
  },
  { name: 'Torque', index: 'PBS_ARRAYID', recorded: ['PBS_ARRAYID', 'PBS_JOBID', 'PBS_JOBNAME'] },
  {
    name: 'LSF',
    index: 'LSB_JOBINDEX',
    // Set to 0 in a job that is no array; only the name of an array's task ends in brackets.
    none: (index, env) => index === '0' || !(env['LSB_JOBNAME'] ?? '[').includes('['),
    recorded: ['LSB_JOBID', 'LSB_JOBINDEX', 'LSB_JOBNAME'],
  },
  {
    name: 'Grid Engine',
    index: 'SGE_TASK_ID',
    none: (index) => index === 'undefined',
    recorded: ['SGE_TASK_ID', 'JOB_ID', 'JOB_NAME', 'RESTARTED'],
    attempt: 'RESTARTED',
  },
  {
    name: 'AWS Batch',
    index: 'AWS_BATCH_JOB_ARRAY_INDEX',
    recorded: ['AWS_BATCH_JOB_ID', 'AWS_BATCH_JOB_ARRAY_INDEX', 'AWS_BATCH_JOB_ATTEMPT'],
    attempt: 'AWS_BATCH_JOB_ATTEMPT',
  },
  {
    name: 'Google Batch',
    index: 'BATCH_TASK_INDEX',
    recorded: ['BATCH_JOB_UID', 'BATCH_JOB_ID', 'BATCH_TASK_INDEX', 'BATCH_TASK_RETRY_ATTEMPT'],
    attempt: 'BATCH_TASK_RETRY_ATTEMPT',
  },
  { name: 'Kubernetes', index: 'JOB_COMPLETION_INDEX', recorded: ['JOB_COMPLETION_INDEX'] },
  {
    name: 'Nomad',
    index: 'NOMAD_ALLOC_INDEX',
    recorded: ['NOMAD_JOB_ID', 'NOMAD_JOB_NAME', 'NOMAD_ALLOC_INDEX'],
  },
];

/** What anybody may set for an engine that is not listed; asked last. */
const GENERIC_INDEX = 'JOB_ARRAY_INDEX';

export interface ArrayIdentity {
  /** Undefined: the task is in no array. */
  readonly index: string | undefined;
  /** The option or variable that the index came from. */
  readonly source: string | undefined;
  /** The schedulers' own variables, by name. */
  readonly scheduler: Readonly<Record<string, string>>;
  /** The innermost scheduler, whether or not this is a task of an array. */
  readonly engine: { readonly name: string; readonly attempt: Given | undefined } | undefined;
}

export interface Given {
  readonly value: string;
  /** `--index`, or the variable. */
  readonly source: string;
}

/**
 * `given` wins over every scheduler; of several schedulers the innermost counts. A mistake if the index is not 1 to 64
 * letters, digits, `_` and `-`, as it stands in object keys.
 */
export function identify(
  env: NodeJS.ProcessEnv,
  given: Given | undefined,
  readText: (file: string) => string,
): ArrayIdentity | Mistake {
  const condor = readCondorAd(env, readText);
  const found = given ?? findIndex(env, condor);
  if (found !== undefined && !INDEX.test(found.value)) {
    return {
      message: `${found.source} '${showPath(found.value)}': not an index`,
      hint: 'an index has 1 to 64 letters, digits, _ and -: --index 3',
    };
  }
  const scheduler = { ...recorded(env), ...condor };
  return { index: found?.value, source: found?.source, scheduler, engine: engineOf(env, condor) };
}

function engineOf(env: NodeJS.ProcessEnv, condor: Readonly<Record<string, string>>): ArrayIdentity['engine'] {
  const { ProcId, NumJobStarts } = condor;
  const found = ENGINES.find((engine) => isPresent(engine.recorded, env));
  if (found !== undefined) return { name: found.name, attempt: counted(found.attempt, env) };
  if (ProcId === undefined) return undefined;
  return { name: 'HTCondor', attempt: counted('NumJobStarts', { NumJobStarts }) };
}

function counted(source: string | undefined, counts: Readonly<NodeJS.ProcessEnv>): Given | undefined {
  const value = source === undefined ? undefined : counts[source];
  return source === undefined || value === undefined || value === '' ? undefined : { value, source };
}

function findIndex(env: NodeJS.ProcessEnv, condor: Readonly<Record<string, string>>): Given | undefined {
  for (const { index, none } of ENGINES) {
    const value = env[index] ?? '';
    if (value !== '' && none?.(value, env) !== true) return { value, source: index };
  }
  const { ProcId } = condor;
  if (ProcId !== undefined) return { value: ProcId, source: 'ProcId in $_CONDOR_JOB_AD' };
  const generic = env[GENERIC_INDEX] ?? '';
  return generic === '' ? undefined : { value: generic, source: GENERIC_INDEX };
}

function recorded(env: NodeJS.ProcessEnv): Record<string, string> {
  const names = ENGINES.filter((engine) => isPresent(engine.recorded, env)).flatMap(
    (engine) => engine.recorded,
  );
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = env[name] ?? '';
      return value === '' ? [] : [[name, value] as const];
    }),
  );
}

/** An engine is there if one of its own names is: JOB_ID and the like may be anybody's. */
function isPresent(names: readonly string[], env: NodeJS.ProcessEnv): boolean {
  return names.some((name) => !SHARED_NAMES.has(name) && (env[name] ?? '') !== '');
}

const SHARED_NAMES: ReadonlySet<string> = new Set(['JOB_ID', 'JOB_NAME', 'RESTARTED']);

/**
 * HTCondor puts no index into the environment. It leaves the job's ClassAd in a file that $_CONDOR_JOB_AD names: what
 * is recorded of it, as far as the ad has it.
 */
function readCondorAd(
  env: NodeJS.ProcessEnv,
  readText: (file: string) => string,
): Readonly<Record<string, string>> {
  const file = env['_CONDOR_JOB_AD'];
  if (file === undefined || file === '') return {};
  const found: Record<string, string> = {};
  for (const line of textOf(file, readText).split('\n')) {
    // One `Name = value` a line; strings stand in quotes (HTCondor manual, "ClassAd file").
    const match = /^\s*(ProcId|ClusterId|NumJobStarts|JobBatchName)\s*=\s*"?([^"]*?)"?\s*$/i.exec(line);
    const name = CONDOR_NAMES.find((known) => known.toLowerCase() === match?.[1]?.toLowerCase());
    if (name !== undefined && match?.[2] !== undefined) found[name] = match[2];
  }
  return found;
}

/** A job that cannot read its own ad is a job without an index. */
function textOf(file: string, readText: (file: string) => string): string {
  try {
    return readText(file);
  } catch {
    return '';
  }
}
