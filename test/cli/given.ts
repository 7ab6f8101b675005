// Command lines for tests, in a world without files: the current directory is /, and every directory is fine.
import type { Outside } from '../../src/cli/options/outside.ts';
import { parseCommandLine, type Parsed } from '../../src/cli/parse.ts';

export const noFiles: Outside = {
  readText: (file) => {
    throw Object.assign(new Error(`ENOENT: no such file or directory, open '${file}'`), { code: 'ENOENT' });
  },
  workdirProblem: () => undefined,
  pathInside: (dir, file) =>
    `${file}/`.startsWith(dir === '/' ? '/' : `${dir}/`)
      ? file.slice(dir.length).replace(/^\//, '')
      : undefined,
  parent: () => undefined,
};

export function parse(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  outside: Outside = noFiles,
): Parsed {
  return parseCommandLine(argv, env, '/', outside);
}

/** Of a command line that is right. */
export function parsed(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  outside: Outside = noFiles,
): Extract<Parsed, { readonly kind: 'run' | 'watch' | 'restore' }> {
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
