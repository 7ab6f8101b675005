// What results have lost for good when a resume goes on from a checkpoint set: content that the store did not have
// when the set was committed, and that the task will not write again. Pure: from records to names.
import { showPath } from './path.ts';
import type { Behind, Generation, Lacking, LeftFile } from './records.ts';

/** More names than anybody reads: further ones are only counted. */
export const MOST_BEHIND = 1000;

/** Results that the set is ahead of; what its companions hold comes back with it. */
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
 * What is lacking still. A file that had been closed and was stored again by a later attempt is whole; of one that
 * was open a later attempt has only written the rest. `storedBy`: the attempt that stored a result.
 */
export function stillLacking(
  lacking: readonly Lacking[],
  storedBy: (path: string) => number | undefined,
): readonly Lacking[] {
  return lacking.filter(({ path, open, attempt }) => open || (storedBy(path) ?? 0) <= attempt);
}

/** As it stands in the last record. */
export function leftOf({ path, open, attempt }: Lacking): LeftFile {
  const state = open ? 'still open' : 'not stored yet';
  return {
    path,
    why: `what attempt ${attempt} had written to it is lost: it was ${state} when that one ended`,
  };
}

/** `traj.xtc (open), frame.3.dat` */
export function namesOf(lacking: readonly Lacking[], most = 10): string {
  const named = lacking
    .slice(0, most)
    .map(({ path, open }) => (open ? `${showPath(path)} (open)` : showPath(path)));
  return [...named, ...(lacking.length > most ? [`${lacking.length - most} more`] : [])].join(', ');
}
