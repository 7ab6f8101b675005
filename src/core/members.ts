// Which of the declared checkpoint files that exist belong to the set. Pure.
import type { RelPath } from './path.ts';

export interface Candidate {
  readonly path: RelPath;
  /** ns since the epoch, as a decimal string. */
  readonly mtimeNs: string;
  /** Index of the pattern that declares it. */
  readonly pattern: number;
}

/** All of them, or with `newest` of each pattern's matches only the n newest (names that rotate). */
export function chooseMembers(
  candidates: readonly Candidate[],
  newest: number | undefined,
): readonly RelPath[] {
  if (newest === undefined) return candidates.map(({ path }) => path);
  const taken = new Map<number, number>();
  return candidates
    .toSorted((a, b) => Number(BigInt(b.mtimeNs) - BigInt(a.mtimeNs)) || (a.path < b.path ? 1 : -1))
    .filter(({ pattern }) => {
      const count = taken.get(pattern) ?? 0;
      taken.set(pattern, count + 1);
      return count < newest;
    })
    .map(({ path }) => path);
}
