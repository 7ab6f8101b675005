// What may be deleted from the store. Pure, and careful: an object may go only if no kept generation of any listed
// record names it, and a record only if a newer one says everything that it said.
import { parseRecordKey } from '../format/keys.ts';
import type { Generation } from '../format/records.ts';
import { generationName } from './history.ts';
import { isGood } from './restore-order.ts';

/**
 * The generations to keep, newest first: the newest `keep` good ones; older good ones until one of those kept is
 * proven (a death that comes to light later may take all the others); and every other one that is newer than the
 * newest good one (it may be all that a resume has), but only the newest `keep` instant ones. Older instant ones fill
 * up what is left of `keep`.
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

/** Keys of members and companion segments that only dropped generations name. */
export function droppedKeys(dropped: readonly Generation[], kept: readonly Generation[]): readonly string[] {
  const alive = new Set(kept.flatMap(keysOf));
  return [...new Set(dropped.flatMap(keysOf))].filter((key) => !alive.has(key));
}

/** All keys that a generation needs. */
export function keysOf(generation: Generation): readonly string[] {
  return [
    ...generation.members.map((member) => member.key),
    ...generation.companions.flatMap((companion) => companion.segments.map((segment) => segment.key)),
  ];
}

/** Generations of `before` that `after` no longer has. */
export function droppedGenerations(
  before: readonly Generation[],
  after: readonly Generation[],
): readonly Generation[] {
  const names = new Set(after.map(generationName));
  return before.filter((generation) => !names.has(generationName(generation)));
}

/**
 * Which of an attempt's own record keys (ascending) may go: never `000000.started`, the newest `checkpoint`, a
 * terminal record, or the two newest. List segments are named by records and stay.
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
