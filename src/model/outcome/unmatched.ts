// Which patterns did no file match? Pure. Each pattern is asked by itself: a file that matches two of them counts for
// both.
import { compileGlob, parsePattern } from '../file/glob.ts';
import type { RelPath } from '../path.ts';

/** The patterns of the list that match none of the paths, in the user's order. */
export function unmatched(patterns: readonly string[], paths: Iterable<RelPath>): readonly string[] {
  let left = patterns.map((pattern) => ({ pattern, matches: matcherOf(pattern) }));
  for (const path of paths) {
    if (left.length === 0) break;
    if (left.some(({ matches }) => matches(path))) left = left.filter(({ matches }) => !matches(path));
  }
  return left.map(({ pattern }) => pattern);
}

/** A name without a wildcard is that file, or everything below it. */
function matcherOf(text: string): (path: RelPath) => boolean {
  const pattern = parsePattern(text);
  if (pattern.kind !== 'named') return compileGlob(pattern.text).matches;
  const { name, directory } = pattern;
  const below = `${name}/`;
  return (path) => path.startsWith(below) || (!directory && path === name);
}
