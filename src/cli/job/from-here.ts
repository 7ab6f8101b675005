// What a task would not find that runs in a work directory of its own (an array's, or `--workdir auto`), and not in the
// directory in which the command line was written.
import path from 'node:path';
import type { Line } from '../command.ts';
import type { Tasks } from './tasks.ts';
import type { Mistake } from '../../model/errors.ts';
import type { ManifestPatterns } from '../../model/file/manifest.ts';
import { unmatched } from '../../model/outcome/verdict.ts';
import { showPath } from '../../model/path.ts';

/** The command as the user wrote it, or a shell. */
type Named = Pick<Tasks, 'argv' | 'isShell'>;

/**
 * Refuses a program that does not exist. A relative path starts here. An absolute one may exist only on the machines of
 * the workers, so `submit` leaves it to them.
 */
export function refuseMissingProgram({ values, cwd, outside }: Line, tasks: Named, isHere: boolean): void {
  const [program = ''] = tasks.argv;
  const isNamed = program.includes('/') && !/[{}]/.test(program);
  if (tasks.isShell || !isNamed || (path.isAbsolute(program) && !isHere)) return;
  const file = path.resolve(cwd, program);
  if (outside.isFile(file)) return;
  values.refuse(
    `the task's program '${showPath(program)}' does not exist: there is no file ${showPath(file)}`,
    isHere ? 'check its path' : 'check its path; a program that only the workers have needs an absolute one',
  );
}

/** Arguments that name a file of this directory by a relative path, and that no pattern brings to the tasks. */
export function warnOfFilesHere(
  { cwd, outside, warn }: Pick<Line, 'cwd' | 'outside' | 'warn'>,
  { argv, isShell }: Named,
  { results, checkpoints, inputs, companions }: ManifestPatterns,
): void {
  if (isShell) return;
  const patterns = [...results, ...checkpoints, ...inputs, ...companions];
  const isDeclared = (word: string): boolean => unmatched(patterns, [word]).length < patterns.length;
  const isOnlyHere = (word: string): boolean =>
    !word.startsWith('-') &&
    !path.isAbsolute(word) &&
    outside.isFile(path.resolve(cwd, word)) &&
    !isDeclared(path.normalize(word));
  warn(argv.slice(1).filter(isOnlyHere).map(notThere(cwd)));
}

function notThere(cwd: string): (word: string) => Mistake {
  return (word) => ({
    message: `the task will not find ${showPath(word)}: it runs in a work directory of its own`,
    hint: `write ${showPath(path.resolve(cwd, word))}; or store it as an input (--inputs)`,
  });
}
