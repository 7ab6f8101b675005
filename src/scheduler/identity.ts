// Which task of the array this is, told from --index or from what the scheduler put into the environment.
// Reads nothing but what it is given; the attempt is claimed in the store, the scheduler's is only recorded.
import type { Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import { readCondorAd } from './condor.ts';
import { ENGINES, GENERIC_INDEX } from './engines.ts';

const INDEX = /^[A-Za-z0-9_-]{1,64}$/;

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
 * `given` wins over every scheduler; of these the innermost counts. A mistake when the index is not 1 to 64
 * letters, digits, `_` and `-`: it stands in object keys.
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

/** By the engine's own names: JOB_ID and the like may be anybody's, unless one of its own is there as well. */
function isPresent(names: readonly string[], env: NodeJS.ProcessEnv): boolean {
  return names.some((name) => !SHARED_NAMES.has(name) && (env[name] ?? '') !== '');
}

const SHARED_NAMES: ReadonlySet<string> = new Set(['JOB_ID', 'JOB_NAME', 'RESTARTED']);
