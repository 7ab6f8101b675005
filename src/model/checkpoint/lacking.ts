// What results have lost for good because a resume continues from a checkpoint set: content that the store did not
// have when the set was committed, and that the task will not write again. Pure: from records to names.
import type { Behind, Generation, Lacking, LeftFile, StoredFile } from '../format/records.ts';
import { showPath } from '../path.ts';

/** More names than anybody reads: further ones are only counted. */
export const MOST_BEHIND = 1000;

/** Results that the set is ahead of, except those that come back with its companions. */
export function behindOf({ behind = [], companions }: Generation): readonly Behind[] {
  const captured = new Set(companions.map(({ path }) => path));
  return behind.filter(({ path }) => !captured.has(path));
}

/** What a resume from this set lacks: what the set itself says, and `lost` of what it was ahead of. */
export function lackingAfter(generation: Generation, lost: readonly Behind[]): readonly Lacking[] {
  const lacking = new Map((generation.lacking ?? []).map((one) => [one.path, one]));
  const { attempt } = generation;
  for (const { path, open } of lost)
    if (lacking.get(path)?.open !== true) lacking.set(path, { path, open, attempt });
  return [...lacking.values()];
}

/**
 * What is still lacking. A file that had been closed and was stored again by a later attempt is whole; of one that
 * was open a later attempt has only written the rest. `storedBy`: the attempt that stored a result.
 */
export function stillLacking(
  lacking: readonly Lacking[],
  storedBy: (path: string) => number | undefined,
): readonly Lacking[] {
  return lacking.filter(({ path, open, attempt }) => open || (storedBy(path) ?? 0) <= attempt);
}

/** Each with its partial result, the object that its attempt's death left, if there is one. */
export function withPartials(
  lacking: readonly Lacking[],
  partials: Iterable<Pick<StoredFile, 'path' | 'attempt' | 'key'>>,
): readonly Lacking[] {
  const keys = new Map([...partials].map(({ path, attempt, key }) => [`${attempt} ${path}`, key]));
  return lacking.map((one) => {
    const key = one.key ?? keys.get(`${one.attempt} ${one.path}`);
    return key === undefined ? one : { ...one, key };
  });
}

/** As it is written in the last record. */
export function leftOf({ path, open, attempt, key }: Lacking): LeftFile {
  const state = open ? 'still open' : 'not stored yet';
  const where = key === undefined ? 'is lost' : `is only in ${key}`;
  return {
    path,
    why: `what attempt ${attempt} had written to it ${where}: it was ${state} when that one ended`,
  };
}

/** `traj.xtc (open), frame.3.dat`; with its partial result, `traj.xtc (open): traj.xtc.3.partial-1` */
export function namesOf(lacking: readonly Lacking[], most = 10): string {
  const named = lacking
    .slice(0, most)
    .map(({ path, open, key }) =>
      [showPath(path), open ? ' (open)' : '', key === undefined ? '' : `: ${key}`].join(''),
    );
  return [...named, ...(lacking.length > most ? [`${lacking.length - most} more`] : [])].join(', ');
}
