// One pattern: a name, or a picomatch glob. Pure; says what matches and which directories are worth entering, and
// never skips a directory in which a match could be.
import picomatch from 'picomatch';
import { ancestorsOf, type RelPath } from '../path.ts';

/** A path without wildcards. `directory`: it ended in `/`, so only what is below it is meant. */
export interface Named {
  readonly kind: 'named';
  readonly name: RelPath;
  readonly directory: boolean;
}

export interface Glob {
  matches(path: RelPath): boolean;
  /** True if a match can be below the directory, at any depth; '' is the work directory. */
  reaches(dir: RelPath): boolean;
}

/** Names that begin with a dot match like others, and a line feed counts as a character like others. */
const OPTIONS = { dot: true, nonegate: true, flags: 's' } as const;

export function parsePattern(text: string): Named | { readonly kind: 'glob'; readonly text: string } {
  if (picomatch.scan(text, { nonegate: true }).isGlob) return { kind: 'glob', text };
  return { kind: 'named', name: literal(text), directory: text.endsWith('/') };
}

/** A glob that ends in `/` is everything below the directories that it matches. */
export function compileGlob(text: string): Glob {
  const whole = text.endsWith('/') ? `${text}**` : text;
  const base = literal(picomatch.scan(whole, { nonegate: true }).base);
  const above = new Set(ancestorsOf(base));
  const below = `${base}/`;
  // `**` reaches any depth, and so does a group that repeats a slash; otherwise each slash is one level.
  const depth = /\*\*|\(/.test(whole) ? Infinity : whole.split('/').length;
  return {
    matches: picomatch(whole, OPTIONS),
    reaches: (dir) => {
      if (above.has(dir)) return true;
      if (base !== '' && dir !== base && !dir.startsWith(below)) return false;
      return dir === '' || dir.split('/').length < depth;
    },
  };
}

/** Without the backslashes that quote wildcards, and without a trailing slash. */
function literal(text: string): string {
  return text.replaceAll(/\\(.)/gs, '$1').replace(/\/+$/, '');
}
