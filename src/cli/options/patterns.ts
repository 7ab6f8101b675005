// Checks the user's patterns before they reach the manifest. The lines of a file replace `@file`. A valid pattern stays
// below the work directory and can match something.
import path from 'node:path';
import picomatch from 'picomatch';
import { errnoOf, isMistake, type Mistake, reasonOf } from '../../model/errors.ts';
import { OWN_DIR, parsePattern } from '../../model/file/manifest.ts';
import { showPath } from '../../model/path.ts';
import { MOST_LIST_BYTES } from '../../native/named-file.ts';
import type { Outside } from './outside.ts';
import type { Option } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

/** The limit of wrong lines of one file that are named. */
const MOST_WRONG = 20;

/** The normalised patterns without duplicates, in the user's order. */
export function patternsOf(
  values: Values,
  option: Option,
  { cwd, workdir, outside }: RunCaller,
): readonly string[] {
  const given = values.given(option);
  if (given === undefined) return [];
  const patterns = new Set<string>();
  const take = (text: string, source: string): boolean => {
    const checked = checkPattern(text, source, workdir);
    if (isMistake(checked)) values.refuseAll([checked]);
    else patterns.add(checked);
    return !isMistake(checked);
  };
  for (const text of given.values) {
    const file = fileOf(text);
    if (file === undefined) {
      take(text, given.source);
      continue;
    }
    const lines = linesOf(file, given.source, cwd, outside);
    if (isMistake(lines)) {
      values.refuseAll([lines]);
      continue;
    }
    let wrong = 0;
    for (const line of lines) {
      if (!take(line.text, `${given.source} @${showPath(file)} line ${line.number}:`)) wrong += 1;
      // It is some other file.
      if (wrong === MOST_WRONG) break;
    }
  }
  return [...patterns];
}

/** `@list.txt` is a file, but `@(a|b)` is a glob, and `\@x` a name. */
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
    text = outside.readText(path.resolve(cwd, file), MOST_LIST_BYTES);
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

/** In characters. The longest path of Linux has 4,096 bytes (PATH_MAX); braces stand for several. */
const LONGEST = 16_384;

/**
 * Returns the normalised pattern (`./a//b` becomes `a/b`, `.` is everything), or the mistake. `source` is its origin
 * for the message: `--results`, or `CAPTURE_RESULTS`.
 */
export function checkPattern(text: string, source: string, workdir: string): string | Mistake {
  if (text.length > LONGEST) {
    return {
      message: `${source} '${showPath(text.slice(0, 32))}...': a pattern of ${text.length.toLocaleString('en')} characters, and none has more than ${LONGEST.toLocaleString('en')}`,
      hint: 'give several patterns, or name the directory above the files',
    };
  }
  const shown = `${source} '${showPath(text)}'`;
  if (text.trim() === '') {
    return {
      message: `${source}: the pattern is empty`,
      hint: `name a file, a glob or a directory: ${source} 'out/*.dat'`,
    };
  }
  if (text.includes('\0')) {
    return { message: `${shown}: a file name has no NUL byte`, hint: 'name the file without it' };
  }
  if (text.startsWith('/')) {
    return {
      message: `${shown}: patterns are relative to the work directory, this one is absolute`,
      hint: relativeHint(text, source, workdir),
    };
  }
  // Checks braces and groups, too, because a component may start in them.
  if (text.split(/[/{}(),|]/).includes('..')) {
    return {
      message: `${shown}: '..' would lead out of the work directory`,
      hint: 'make the directory above the work directory with --workdir, and name the file from there',
    };
  }
  const plain = plainForm(text);
  if (plain.split('/')[0] === OWN_DIR) {
    return {
      message: `${shown}: ${OWN_DIR} is capture's own directory and is never captured`,
      hint: 'keep files of the task elsewhere',
    };
  }
  if (!isGlobValid(plain)) {
    return {
      message: `${shown}: not a valid glob`,
      hint: 'quote wildcards that are meant as they stand with a backslash, such as \\[ or \\(',
    };
  }
  return plain;
}

/** Removes empty and `.` components. A trailing slash stays, because it means "directory". */
function plainForm(text: string): string {
  const parts = text.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0) return '**';
  return parts.join('/') + (/\/\.?$/.test(text) ? '/' : '');
}

function relativeHint(text: string, source: string, workdir: string): string {
  const below = workdir === '/' ? '/' : `${workdir}/`;
  return text.startsWith(below) && text.length > below.length
    ? `${source} '${showPath(text.slice(below.length))}'`
    : `name files of the work directory (${showPath(workdir)}), or choose another with --workdir`;
}

function isGlobValid(text: string): boolean {
  if (parsePattern(text).kind === 'named') return true;
  try {
    // picomatch throws for an invalid regular expression only in debug mode.
    picomatch.makeRe(text, { dot: true, nonegate: true, debug: true });
    return true;
  } catch {
    return false;
  }
}
