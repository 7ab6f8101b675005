// The patterns of one list option: `@file` is replaced by the lines of the file, and every pattern is checked.
import path from 'node:path';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { isMistake, type Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import type { Given } from './option-spec.ts';
import type { Outside } from './outside.ts';
import { checkPattern } from './pattern.ts';

export interface PatternPlace {
  /** Where `@file` is looked for. */
  readonly cwd: string;
  readonly workdir: string;
  readonly outside: Outside;
}

/** Patterns in their plain form, each once, in the user's order. */
export function readPatterns(
  given: Given | undefined,
  { cwd, workdir, outside }: PatternPlace,
): { readonly patterns: readonly string[]; readonly mistakes: readonly Mistake[] } {
  if (given === undefined) return { patterns: [], mistakes: [] };
  const mistakes: Mistake[] = [];
  const patterns = new Set<string>();
  const take = (text: string, source: string): void => {
    const checked = checkPattern(text, source, workdir);
    if (isMistake(checked)) mistakes.push(checked);
    else patterns.add(checked);
  };
  for (const text of given.values) {
    const file = fileOf(text);
    if (file === undefined) {
      take(text, given.source);
      continue;
    }
    const lines = linesOf(file, given.source, cwd, outside);
    if (isMistake(lines)) mistakes.push(lines);
    else for (const line of lines) take(line.text, `${given.source} @${showPath(file)} line ${line.number}:`);
  }
  return { patterns: [...patterns], mistakes };
}

/** `@list.txt`; but `@(a|b)` is a glob, and `\@x` a name. */
function fileOf(text: string): string | undefined {
  return text.startsWith('@') && !text.startsWith('@(') ? text.slice(1) : undefined;
}

function linesOf(
  file: string,
  source: string,
  cwd: string,
  outside: Outside,
): readonly { readonly text: string; readonly number: number }[] | Mistake {
  let text: string;
  try {
    text = outside.readText(path.resolve(cwd, file));
  } catch (error) {
    const why = errnoOf(error) === 'ENOENT' ? 'no such file' : reasonOf(error);
    return {
      message: `${source} '@${showPath(file)}': cannot read the patterns: ${why}`,
      hint: `name a file with one pattern a line, or write ${source} '\\@${showPath(file)}' for a name that begins with @`,
    };
  }
  return text
    .split('\n')
    .map((line, at) => ({ text: line.trim(), number: at + 1 }))
    .filter((line) => line.text !== '' && !line.text.startsWith('#'));
}
