// Command lines for tests, in a world without files: the current directory is /, and every directory is fine.
import type { Outside } from '../../src/cli/options/outside.ts';
import { RUN_OPTIONS } from '../../src/cli/options.ts';
import type { RunName, RunOption } from '../../src/cli/options/spec.ts';
import { findCommand, type JobReader, type Parsed, readLine } from '../../src/cli/read-line.ts';
import { RESTORE_SPEC, RUN_SPEC, type RunRequest, WATCH_SPEC } from '../../src/cli/run-spec.ts';
import type { Mistake } from '../../src/model/errors.ts';

export const noFiles: Outside = {
  readText: (file) => {
    throw Object.assign(new Error(`ENOENT: no such file or directory, open '${file}'`), { code: 'ENOENT' });
  },
  isFile: () => false,
  workdirProblem: () => undefined,
  pathInside: (dir, file) =>
    `${file}/`.startsWith(dir === '/' ? '/' : `${dir}/`)
      ? file.slice(dir.length).replace(/^\//, '')
      : undefined,
  parent: () => undefined,
};

/** What a command line of a run, a watch or a restore comes to. */
export type ReadRun =
  | (RunRequest & { readonly kind: RunName; readonly warnings: readonly Mistake[] })
  | Extract<Parsed<never>, { readonly kind: 'text' | 'mistakes' }>;

export function parse(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  outside: Outside = noFiles,
  { cwd = '/', readJob }: { readonly cwd?: string; readonly readJob?: JobReader } = {},
): ReadRun {
  const { command, args, namesJob } = findCommand([RUN_SPEC, WATCH_SPEC, RESTORE_SPEC], argv);
  const read = readLine(command, args, { env, cwd, outside }, namesJob ? readJob : undefined);
  if (read.kind !== 'go') return read;
  return { kind: command.name as RunName, ...read.request, warnings: read.warnings };
}

/** Of a command line that is right. */
export function parsed(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  outside: Outside = noFiles,
): Extract<ReadRun, { readonly kind: RunName }> {
  const result = parse(argv, env, outside);
  if ('settings' in result) return result;
  throw new Error(`not a good command line: ${JSON.stringify(result)}`);
}

/** The messages of a command line that is wrong, each with its hint. */
export function mistakesOf(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  outside: Outside = noFiles,
): string[] {
  const result = parse(argv, env, outside);
  return result.kind === 'mistakes' ? result.mistakes.map(({ message, hint }) => `${message} | ${hint}`) : [];
}

/** An option of the commands beside a task. */
export function optionOf(name: string): RunOption {
  const found = RUN_OPTIONS.find((option) => option.name === name);
  if (found === undefined) throw new Error(`there is no --${name}`);
  return found;
}
