// The user's texts about a set of checkpoint files: what it contains, whether it is good, which one restore prefers.
// Pure.
import type { Generation } from '../format/records.ts';
import { formatBytes, plural } from '../units.ts';
import { generationName } from './history.ts';
import { restoreOrder } from './restore-order.ts';

type Files = Pick<Generation, 'members' | 'companions'>;

/** Total bytes of all its files, at their size in the work directory. */
export function generationBytes({ members, companions }: Files): number {
  return [...members, ...companions].reduce((sum, { size }) => sum + size, 0);
}

/** `2 files, 1 companion, 1 open result, 18.0 MiB`. Only files declared as companions are called so. */
export function describeFiles(generation: Files): string {
  const { members, companions } = generation;
  const counts = [
    { count: members.length, what: 'file' },
    { count: companions.filter(({ result }) => result !== true).length, what: 'companion' },
    { count: companions.filter(({ result }) => result === true).length, what: 'open result' },
  ].filter(({ count }) => count > 0);
  const files = counts.map(({ count, what }) => plural(count, what));
  return [...(files.length > 0 ? files : [plural(0, 'file')]), formatBytes(generationBytes(generation))].join(
    ', ',
  );
}

/**
 * `checkpoint 1-4 is safe (1 file, 1.2 MiB)`. A set that may be half-written, or mixes several moments, is never
 * called safe. `refused`: why the user's own check made it suspect.
 */
export function committedLine(generation: Generation, refused?: string): string {
  return `checkpoint ${generationName(generation)} ${howStored(generation, refused)} (${describeFiles(generation)})`;
}

function howStored(
  { suspect, incomplete, unproven, instant }: Generation,
  refused: string | undefined,
): string {
  if (refused !== undefined) return `is stored, and marked suspect, as ${refused}`;
  if (suspect === true) return 'is stored and may be half-written';
  if (incomplete === true) return 'is stored, and incomplete';
  if (unproven === true) return 'is stored, and not proven yet: a dying process may have closed a file of it';
  return instant === true ? 'is stored as its files were at one instant' : 'is safe';
}

/** The state of a set, for a table. */
export function setWords({ suspect, incomplete, unproven, instant }: Generation): string {
  if (suspect === true) return 'may be half-written';
  if (incomplete === true) return 'incomplete';
  if (unproven === true) return 'not proven';
  return instant === true ? 'its files at one instant' : 'safe';
}

/**
 * The warning about a set that restore takes although it is not known to be whole; undefined for any other set. An
 * `unproven` set has its own text elsewhere, because a newer one may exist.
 */
export function doubtLine({ suspect, incomplete, ...generation }: Generation): string | undefined {
  const restored = `checkpoint ${generationName(generation)} is restored, as no better one is left, and`;
  if (suspect === true)
    return `${restored} may be half-written: a dying process may have closed a file of it, or --verify-checkpoint refused it`;
  if (incomplete === true)
    return `${restored} is incomplete: a file of it is not stored, or the task failed between two of its files`;
  return undefined;
}

/** Which set restore takes when some may be half-written. */
export function preferenceLine(generations: readonly Generation[]): string {
  const [first] = restoreOrder(generations);
  return first === undefined || first.suspect === true
    ? 'there is no other, so restore takes it all the same'
    : `restore prefers checkpoint ${generationName(first)}`;
}
