// Which task of the array this is: from --index, or from the scheduler's environment variables. It reads only its
// arguments. The attempt is claimed in the store; the scheduler's own count is only recorded.
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';

/**
 * The form of an index: it ends object keys. So it is none of the words that end keys themselves: `x.1.zst` would be the
 * compressed `x` of index 1, and the `x.1` of an index `zst`.
 */
export const INDEX = /^(?!(?:zst|age|gpg|partial-\d+)$)[A-Za-z0-9_-]{1,64}$/;
const INDEX_HINT = 'an index has 1 to 64 letters, digits, _ and -, and is not zst, age, gpg or partial-1';
/** Attributes of a ClassAd that are recorded; their names are case-insensitive. */
const CONDOR_NAMES = ['ProcId', 'ClusterId', 'NumJobStarts', 'JobBatchName'] as const;

/**
 * The environment variables by which an engine names the task of an array. The names are the vendors'. Values that
 * mean "not an array" are noted here.
 */
interface Engine {
  readonly name: string;
  /** The variable that holds the index. */
  readonly index: string;
  /** Values of the index that mean "no array". */
  readonly none?: (index: string, env: NodeJS.ProcessEnv) => boolean;
  /** Job id, job name, attempt: only recorded. */
  readonly recorded: readonly string[];
  /** The one with the number of starts or restarts of this task. */
  readonly attempt?: string;
}

/**
 * Inner engines first: GNU parallel inside a Slurm job has the variables of both, and gives each task its own index.
 */
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
      // Job ids are those of one cluster.
      'SLURM_CLUSTER_NAME',
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
    // 0 in a job that is not an array. Only the name of an array's task ends in brackets.
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

/** Anybody may set it for an engine that is not listed; checked last. */
const GENERIC_INDEX = 'JOB_ARRAY_INDEX';

export interface ArrayIdentity {
  /** Undefined: the task is not in an array. */
  readonly index: string | undefined;
  /** The option or variable that the index came from. */
  readonly source: string | undefined;
  /** The schedulers' own variables, by name. */
  readonly scheduler: Readonly<Record<string, string>>;
  /** The innermost scheduler, whether or not this is a task of an array. */
  readonly engine: { readonly name: string; readonly attempt: SourcedValue | undefined } | undefined;
}

export interface SourcedValue {
  readonly value: string;
  /** `--index`, or the variable. */
  readonly source: string;
}

/**
 * `given` overrides every scheduler; of several schedulers the innermost counts. An index that is not 1 to 64 letters,
 * digits, `_` and `-` is a mistake ({@link INDEX}), because it is part of object keys.
 */
export function identify(
  env: NodeJS.ProcessEnv,
  given: SourcedValue | undefined,
  readText: (file: string) => string,
): ArrayIdentity | Mistake {
  const condor = readCondorAd(env, readText);
  const found = given ?? findIndex(env, condor);
  if (found !== undefined && !INDEX.test(found.value)) {
    return {
      message: `${found.source} '${showPath(found.value)}': not an index`,
      hint: `${INDEX_HINT}: --index 3`,
    };
  }
  const scheduler = { ...recorded(env), ...condor };
  return { index: found?.value, source: found?.source, scheduler, engine: engineOf(env, condor) };
}

function engineOf(env: NodeJS.ProcessEnv, condor: Readonly<Record<string, string>>): ArrayIdentity['engine'] {
  const { ProcId, NumJobStarts } = condor;
  const found = ENGINES.find((engine) => isPresent(engine.recorded, env));
  if (found !== undefined) return { name: found.name, attempt: startCount(found.attempt, env) };
  if (ProcId === undefined) return undefined;
  return { name: 'HTCondor', attempt: startCount('NumJobStarts', { NumJobStarts }) };
}

function startCount(
  source: string | undefined,
  counts: Readonly<NodeJS.ProcessEnv>,
): SourcedValue | undefined {
  const value = source === undefined ? undefined : counts[source];
  return source === undefined || value === undefined || value === '' ? undefined : { value, source };
}

function findIndex(
  env: NodeJS.ProcessEnv,
  condor: Readonly<Record<string, string>>,
): SourcedValue | undefined {
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

/** An engine is present if one of its own variables is set; names like JOB_ID may be anybody's. */
function isPresent(names: readonly string[], env: NodeJS.ProcessEnv): boolean {
  return names.some((name) => !SHARED_NAMES.has(name) && (env[name] ?? '') !== '');
}

const SHARED_NAMES: ReadonlySet<string> = new Set(['JOB_ID', 'JOB_NAME', 'RESTARTED']);

/**
 * HTCondor sets no variable with the index. It writes the job's ClassAd to the file in $_CONDOR_JOB_AD. Returns the
 * recorded attributes that the ad has.
 */
function readCondorAd(
  env: NodeJS.ProcessEnv,
  readText: (file: string) => string,
): Readonly<Record<string, string>> {
  const file = env['_CONDOR_JOB_AD'];
  if (file === undefined || file === '') return {};
  const found: Record<string, string> = {};
  for (const line of textOf(file, readText).split('\n')) {
    // One `Name = value` a line; strings are quoted (HTCondor manual, "ClassAd file").
    const match = /^\s*(ProcId|ClusterId|NumJobStarts|JobBatchName)\s*=\s*"?([^"]*?)"?\s*$/i.exec(line);
    const name = CONDOR_NAMES.find((known) => known.toLowerCase() === match?.[1]?.toLowerCase());
    if (name !== undefined && match?.[2] !== undefined) found[name] = match[2];
  }
  return found;
}

/** A job that cannot read its own ad has no index. */
function textOf(file: string, readText: (file: string) => string): string {
  try {
    return readText(file);
  } catch {
    return '';
  }
}
