// Which task of the array this is: --index says so, or what the scheduler put into the environment. Reads nothing but
// what it is given. The attempt is claimed in the store; the scheduler's count is only recorded.
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { ENGINES, GENERIC_INDEX } from './engines.ts';

const INDEX = /^[A-Za-z0-9_-]{1,64}$/;

/** Attributes of a ClassAd that are recorded; their names are case-insensitive. */
const CONDOR_NAMES = ['ProcId', 'ClusterId', 'NumJobStarts', 'JobBatchName'] as const;

export interface ArrayIdentity {
  /** Undefined: the task is in no array. */
  readonly index: string | undefined;
  /** The option or variable that the index came from. */
  readonly source: string | undefined;
  /** The schedulers' own variables, by name. */
  readonly scheduler: Readonly<Record<string, string>>;
}

export interface Given {
  readonly value: string;
  /** `--index` or `CAPTURE_INDEX`. */
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
  return { index: found?.value, source: found?.source, scheduler: { ...recorded(env), ...condor } };
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
