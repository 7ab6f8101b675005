// Which of the declared checkpoint files that exist belong to the set. Pure.
import type { RelPath } from '../path.ts';

export interface Candidate {
  readonly path: RelPath;
  /** ns since the epoch, as a decimal string. */
  readonly mtimeNs: string;
  /** Index of the pattern that declares it. */
  readonly pattern: number;
  /** The directory or file that the pattern's last star names; the path if there is none. */
  readonly unit: string;
}

/** All of them; with `newest` only the newest n directories or files of each pattern (names that rotate). */
export function chooseMembers(
  candidates: readonly Candidate[],
  newest: number | undefined,
): readonly RelPath[] {
  if (newest === undefined) return candidates.map(({ path }) => path);
  const units = new Map<
    string,
    { readonly pattern: number; readonly mtimeNs: bigint; readonly key: string }
  >();
  for (const candidate of candidates) {
    const key = keyOf(candidate);
    const mtimeNs = BigInt(candidate.mtimeNs);
    if ((units.get(key)?.mtimeNs ?? -1n) < mtimeNs)
      units.set(key, { pattern: candidate.pattern, mtimeNs, key });
  }
  const taken = new Map<number, number>();
  const chosen = new Set<string>();
  const newestFirst = [...units.values()].toSorted(
    (a, b) => Number(b.mtimeNs - a.mtimeNs) || (a.key < b.key ? 1 : -1),
  );
  for (const { pattern, key } of newestFirst) {
    const count = taken.get(pattern) ?? 0;
    taken.set(pattern, count + 1);
    if (count < newest) chosen.add(key);
  }
  return candidates.filter((candidate) => chosen.has(keyOf(candidate))).map(({ path }) => path);
}

function keyOf({ pattern, unit }: Candidate): string {
  return `${pattern}/${unit}`;
}
