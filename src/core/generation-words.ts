// How the user reads of a set of checkpoint files: what is in it, whether it is good, which one restore prefers. Pure.
import { generationName, restoreOrder } from './history.ts';
import type { Generation } from './records.ts';
import { formatBytes, plural } from './units.ts';

type Files = Pick<Generation, 'members' | 'companions'>;

/** Bytes of all its files, as they are in the work directory. */
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

/** `checkpoint 1-4 is safe (1 file, 1.2 MiB)`; what may be half-written is never called safe. */
export function committedLine(generation: Generation): string {
  const { suspect, incomplete } = generation;
  const how =
    suspect === true
      ? 'is stored and may be half-written'
      : incomplete === true
        ? 'is stored, and incomplete'
        : 'is safe';
  return `checkpoint ${generationName(generation)} ${how} (${describeFiles(generation)})`;
}

/** Which of them a restore takes, now that some may be half-written. */
export function preferenceLine(generations: readonly Generation[]): string {
  const [first] = restoreOrder(generations);
  return first === undefined || first.suspect === true
    ? 'there is no other, so restore takes it all the same'
    : `restore prefers checkpoint ${generationName(first)}`;
}
