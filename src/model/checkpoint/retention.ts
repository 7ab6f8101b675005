// What may be deleted from the store. Pure, and careful: an object may go only if no kept generation of any listed
// record names it, and a record only if a newer one repeats everything in it.
import { parseRecordKey } from '../format/keys.ts';
import { type Generation, RECORD_LIMIT_BYTES } from '../format/records.ts';
import { generationName } from './history.ts';
import { isGood } from './restore-order.ts';

/**
 * The generations to keep, newest first: the newest `keep` good ones, and older good ones until one kept is proven (a
 * death that comes to light later may spoil all the others). Also every other generation newer than the newest good
 * one (a resume may have nothing else), but only the newest `keep` instant ones. Older instant ones fill up the rest
 * of `keep`.
 */
export function keptGenerations(
  newestFirst: readonly Generation[],
  keep: number,
  isProven: (generation: Generation) => boolean,
): readonly Generation[] {
  const kept: Generation[] = [];
  let good = 0;
  let instant = 0;
  let proven = false;
  for (const generation of newestFirst) {
    if (isGood(generation)) {
      if (good < keep || !proven) kept.push(generation);
      good += 1;
      proven ||= isProven(generation);
    } else if (generation.instant === true) {
      instant += 1;
      if (good === 0 ? instant <= keep : kept.length < keep) kept.push(generation);
    } else if (good === 0) kept.push(generation);
  }
  return kept;
}

/** Half of the largest record: the other half is for what else it says. */
const ROOM_BYTES = RECORD_LIMIT_BYTES / 2;

/** Those that a record has room for: beyond it the oldest go, but never the newest nor the newest that is proven. */
export function withinRoom(
  newestFirst: readonly Generation[],
  isProven: (generation: Generation) => boolean,
): readonly Generation[] {
  const proven = newestFirst.find((one) => isGood(one) && isProven(one));
  let leftBytes = ROOM_BYTES;
  return newestFirst.filter((one) => {
    leftBytes -= Buffer.byteLength(JSON.stringify(one));
    return leftBytes >= 0 || one === newestFirst[0] || one === proven;
  });
}

/** Keys of members and companion segments that only dropped generations name. */
export function droppedKeys(dropped: readonly Generation[], kept: readonly Generation[]): readonly string[] {
  const alive = new Set(kept.flatMap(generationKeys));
  return [...new Set(dropped.flatMap(generationKeys))].filter((key) => !alive.has(key));
}

/** All keys that a generation needs. */
export function generationKeys(generation: Generation): readonly string[] {
  return [
    ...generation.members.map((member) => member.key),
    ...generation.companions.flatMap((companion) => companion.segments.map((segment) => segment.key)),
  ];
}

/** Generations of `before` that are missing in `after`. */
export function droppedGenerations(
  before: readonly Generation[],
  after: readonly Generation[],
): readonly Generation[] {
  const names = new Set(after.map(generationName));
  return before.filter((generation) => !names.has(generationName(generation)));
}

/**
 * Which of an attempt's own record keys (ascending) may be deleted: never `000000.started`, the newest `checkpoint`, a
 * terminal record, or the two newest. Records name list segments, so these stay.
 */
export function prunableRecords(keys: readonly string[]): readonly string[] {
  const parsed = keys.flatMap((key) => {
    const at = parseRecordKey(key);
    return at === undefined || at.kind === 'list' ? [] : [{ key, ...at }];
  });
  const newestCheckpoint = parsed.findLast((record) => record.kind === 'checkpoint')?.key;
  return parsed
    .slice(0, -2)
    .filter(
      (record) =>
        record.key !== newestCheckpoint &&
        (record.kind === 'stored' ||
          record.kind === 'checkpoint' ||
          (record.kind === 'started' && record.seq > 0)),
    )
    .map((record) => record.key);
}
