// What results have lost for good because a resume continues from a checkpoint set: content that was not stored when
// the set was committed, and that the task will not write again. Pure: from records to names.
import type { Behind, Generation, Lacking, LeftFile, StoredFile } from '../format/records.ts';
import { showPath } from '../path.ts';

/** Nobody reads more names than this: further ones are only counted. */
export const MOST_BEHIND = 1000;

/** Results that the set is ahead of, except those that are restored as its companions. */
export function resultsBehind({ behind = [], companions }: Generation): readonly Behind[] {
  const captured = new Set(companions.map(({ path }) => path));
  return behind.filter(({ path }) => !captured.has(path));
}

/**
 * True if the object under the result's name holds this state, or a later one of the same or a later attempt. A later
 * state may have an older mtime, or the same (cp -p, tar, touch -r): only that it is none of the older ones tells.
 * Where nobody knows all of those, size and mtime must be the same, too.
 */
export function isStateStored(
  stored: Pick<StoredFile, 'attempt' | 'push' | 'size' | 'mtimeNs'>,
  { size, mtimeNs, over, unsure = over === undefined }: Behind,
  attempt: number,
): boolean {
  if (stored.attempt !== attempt) return stored.attempt > attempt;
  if (over?.includes(stored.push) === true) return false;
  return !unsure || (stored.size === size && stored.mtimeNs === mtimeNs);
}

/** What a resume from this set lacks: what the set itself records, and the `lost` ones that it was ahead of. */
export function lackingAfter(generation: Generation, lost: readonly Behind[]): readonly Lacking[] {
  const lacking = new Map((generation.lacking ?? []).map((one) => [one.path, one]));
  const { attempt } = generation;
  for (const { path, open } of lost)
    if (lacking.get(path)?.open !== true) lacking.set(path, { path, open, attempt });
  return [...lacking.values()];
}

/**
 * What is still lacking. A file that was closed is whole once a later attempt has stored it. Of a file that was open,
 * a later attempt writes only the rest. `storedBy`: the attempt that stored a result.
 */
export function stillLacking(
  lacking: readonly Lacking[],
  storedBy: (path: string) => number | undefined,
): readonly Lacking[] {
  return lacking.filter(({ path, open, attempt }) => open || (storedBy(path) ?? 0) <= attempt);
}

/**
 * Adds to each the staged object of its attempt, if there is one: the very state that the set was ahead of, otherwise
 * the newest. `isProof`: no process died before the set, so a living process closed that state, and it is whole.
 */
export function withPartials(
  lacking: readonly Lacking[],
  lost: readonly Behind[],
  { partials, isProof }: { readonly partials: Iterable<StoredFile>; readonly isProof: boolean },
): readonly Lacking[] {
  const states = new Map(lost.map((one) => [one.path, one]));
  const found = new Map<string, Pick<Lacking, 'key' | 'whole'>>();
  for (const { path, attempt, key, size, mtimeNs } of partials) {
    const at = `${attempt} ${path}`;
    const state = states.get(path);
    const isSame = state?.followed === true && state.size === size && state.mtimeNs === mtimeNs;
    if (isSame && isProof) found.set(at, { key, whole: true });
    // An empty file that the kernel closed for a dying process is not worth keeping.
    else if (found.get(at)?.whole !== true && size > 0) found.set(at, { key });
  }
  return lacking.map((one) =>
    one.key === undefined ? { ...one, ...found.get(`${one.attempt} ${one.path}`) } : one,
  );
}

/** Its form in the last record. */
export function lackingAsLeft({ path, open, attempt, key }: Lacking): LeftFile {
  const state = open ? 'still open' : 'not stored yet';
  const where = key === undefined ? 'is lost' : `is only in ${key}`;
  return {
    path,
    why: `what attempt ${attempt} had written to it ${where}: it was ${state} when that one ended`,
  };
}

/** `traj.xtc (open), frame.3.dat`; with its partial result, `traj.xtc (open): traj.xtc.3.partial-1` */
export function lackingNames(lacking: readonly Lacking[], most = 10): string {
  const named = lacking
    .slice(0, most)
    .map(({ path, open, key }) =>
      [showPath(path), open ? ' (open)' : '', key === undefined ? '' : `: ${key}`].join(''),
    );
  return [...named, ...(lacking.length > most ? [`${lacking.length - most} more`] : [])].join(', ');
}
