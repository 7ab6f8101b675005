// Which existing checkpoint files belong to the set. Pure.
import type { RelPath } from '../path.ts';
import type { Rotation } from './rotation.ts';
import { stepsOf, type Unit } from './steps.ts';

export interface Candidate {
  readonly path: RelPath;
  /** ns since the epoch, as a decimal string. */
  readonly mtimeNs: string;
  /** Index of the pattern that declares the file. */
  readonly pattern: number;
  /** What the pattern's last star names. Undefined if it has none: then the file is a checkpoint by itself. */
  readonly rotation: Pick<Rotation, 'unit' | 'numbers' | 'shape'> | undefined;
}

export interface ChosenMembers {
  readonly members: readonly RelPath[];
  /**
   * Members that may belong to older checkpoints than `newest` allows. Nobody can tell, so they are included. Oldest
   * first.
   */
  readonly ambiguous: readonly Candidate[];
}

/** All candidates; with `newest`, only the newest n checkpoints of each pattern (names that rotate). */
export function chooseMembers(candidates: readonly Candidate[], newest: number | undefined): ChosenMembers {
  if (newest === undefined) return { members: candidates.map(({ path }) => path), ambiguous: [] };
  const patterns = new Map<number, Candidate[]>();
  for (const one of candidates) patterns.set(one.pattern, [...(patterns.get(one.pattern) ?? []), one]);
  const chosen = new Set<Candidate>();
  const ambiguous: Candidate[] = [];
  for (const alike of patterns.values()) {
    const units = unitsOf(alike);
    const steps = stepsOf(units.values());
    const stepOf = (one: Candidate): string => steps.of.get(unitOf(one)) ?? unitOf(one);
    const taken = newestSteps(alike, stepOf, newest);
    for (const one of alike) if (taken.has(stepOf(one))) chosen.add(one);
    if (steps.ambiguous.length <= newest) continue;
    const byUnit = new Map(alike.map((one) => [unitOf(one), one]));
    ambiguous.push(...steps.ambiguous.flatMap(({ name }) => byUnit.get(name) ?? []));
  }
  return { members: candidates.filter((one) => chosen.has(one)).map(({ path }) => path), ambiguous };
}

function unitOf({ path, rotation }: Candidate): string {
  return rotation?.unit ?? path;
}

/** A unit is as new as its newest file. */
function unitsOf(candidates: readonly Candidate[]): ReadonlyMap<string, Unit> {
  const units = new Map<string, Unit>();
  for (const one of candidates) {
    const name = unitOf(one);
    const mtimeNs = BigInt(one.mtimeNs);
    const { numbers = [], shape = name } = one.rotation ?? {};
    if ((units.get(name)?.mtimeNs ?? -1n) < mtimeNs) units.set(name, { name, numbers, shape, mtimeNs });
  }
  return units;
}

function newestSteps(
  candidates: readonly Candidate[],
  stepOf: (one: Candidate) => string,
  newest: number,
): ReadonlySet<string> {
  const mtimes = new Map<string, bigint>();
  for (const one of candidates) {
    const step = stepOf(one);
    const mtimeNs = BigInt(one.mtimeNs);
    if ((mtimes.get(step) ?? -1n) < mtimeNs) mtimes.set(step, mtimeNs);
  }
  const newestFirst = [...mtimes].toSorted(([a, aNs], [b, bNs]) => Number(bNs - aNs) || (a < b ? 1 : -1));
  return new Set(newestFirst.slice(0, newest).map(([step]) => step));
}
