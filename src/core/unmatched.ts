// Which patterns did no file match? Pure. Each pattern is asked by itself: a file that two of them match
// counts for both.
import { compileGlob, parsePattern } from './glob.ts';
import type { RelPath } from './path.ts';

/** The patterns of the list that match none of the paths, in the user's order. */
export function unmatched(patterns: readonly string[], paths: readonly RelPath[]): readonly string[] {
  if (patterns.length === 0) return [];
  const names = new Set(paths);
  return patterns.filter((pattern) => !matchesAny(pattern, names));
}

/** A name without a wildcard is that file, or everything below it. */
function matchesAny(text: string, paths: ReadonlySet<RelPath>): boolean {
  const pattern = parsePattern(text);
  if (pattern.kind === 'named' && !pattern.directory && paths.has(pattern.name)) return true;
  const below = pattern.kind === 'named' ? `${pattern.name}/` : '';
  const matches =
    pattern.kind === 'named'
      ? (path: RelPath): boolean => path.startsWith(below)
      : compileGlob(pattern.text).matches;
  for (const path of paths) if (matches(path)) return true;
  return false;
}
