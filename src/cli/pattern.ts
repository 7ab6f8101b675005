// Makes one pattern of the user's safe and plain before it reaches the manifest. Pure; what it lets pass
// stays below the work directory, and can match something.
import picomatch from 'picomatch';
import { parsePattern } from '../model/file/glob.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import type { Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';

/**
 * The pattern in its plain form (`./a//b` is `a/b`, `.` is everything), or what is wrong with it.
 * `source` is what it came from, for the message: `--results`, or `CAPTURE_RESULTS`.
 */
export function checkPattern(text: string, source: string, workdir: string): string | Mistake {
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
  // Also inside braces and groups, where a component may begin.
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

/** Without empty and `.` components; a final slash stays, it says "directory". */
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
    // Only in debug mode does picomatch say that it could not make a regular expression.
    picomatch.makeRe(text, { dot: true, nonegate: true, debug: true });
    return true;
  } catch {
    return false;
  }
}
