// What the user reads about a set of checkpoint files: what is in it, whether it is good, which one restore prefers.
// Pure.
import type { Generation } from '../format/records.ts';
import { formatBytes, plural } from '../units.ts';
import { generationName } from './history.ts';
import { restoreOrder } from './restore-order.ts';

type Files = Pick<Generation, 'members' | 'companions'>;

/** Bytes of all its files, at their size in the work directory. */
export function generationBytes({ members, companions }: Files): number {
  return [...members, ...companions].reduce((sum, { size }) => sum + size, 0);
}

/** `2 files, 1 companion, 18.0 MiB` */
export function describeFiles(generation: Files): string {
  const { members, companions } = generation;
  return [
    ...(members.length > 0 || companions.length === 0 ? [plural(members.length, 'file')] : []),
    ...(companions.length > 0 ? [plural(companions.length, 'companion')] : []),
    formatBytes(generationBytes(generation)),
  ].join(', ');
}

/**
 * `checkpoint 1-4 is safe (1 file, 1.2 MiB)`. A set that may be half-written, or of several moments, is never called
 * safe.
 */
export function committedLine(generation: Generation): string {
  return `checkpoint ${generationName(generation)} ${howStored(generation)} (${describeFiles(generation)})`;
}

function howStored({ suspect, incomplete, unproven, instant }: Generation): string {
  if (suspect === true) return 'is stored and may be half-written';
  if (incomplete === true) return 'is stored, and incomplete';
  if (unproven === true)
    return 'is stored, and not proven yet, as a process of the task ended when it was closed';
  return instant === true ? 'is stored as its files were at one instant' : 'is safe';
}

/** Which of them a restore takes, now that some may be half-written. */
export function preferenceLine(generations: readonly Generation[]): string {
  const [first] = restoreOrder(generations);
  return first === undefined || first.suspect === true
    ? 'there is no other, so restore takes it all the same'
    : `restore prefers checkpoint ${generationName(first)}`;
}
