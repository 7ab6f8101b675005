// Partial results of earlier attempts, looked at when the index is done. Pure: says which of these objects nobody
// needs any more, which hold a whole result, and of which results nothing else is stored.
import type { Generation, StoredFile } from '../format/records.ts';

export interface SortedPartials {
  /** The result was stored whole later. */
  readonly obsolete: readonly StoredFile[];
  /** Nothing else is stored of the result, and these bytes are proven whole. */
  readonly whole: readonly StoredFile[];
  /** Nothing else is stored of the result, and nobody knows whether these bytes are all. */
  readonly unproven: readonly StoredFile[];
}

export interface PartialsQuestion {
  /** Ordered by attempt. */
  readonly partials: Iterable<StoredFile>;
  /** What is stored of a result; undefined if nothing is. */
  readonly resultOf: (path: string) => StoredFile | undefined;
  /** The task of this attempt closed the result, even if it is empty, or left it unchanged and ended with 0. */
  readonly isWrittenNow: (path: string) => boolean;
  /** A later attempt has only written the rest of the result: nothing of it may be deleted. */
  readonly isLacking: (path: string) => boolean;
  readonly generations: readonly Generation[];
}

export function sortPartials(question: PartialsQuestion): SortedPartials {
  const { resultOf, isWrittenNow, isLacking, generations } = question;
  const obsolete: StoredFile[] = [];
  const newest = new Map<string, StoredFile>();
  for (const partial of question.partials) {
    const { path, attempt } = partial;
    const result = resultOf(path);
    if (isLacking(path)) continue;
    if (isWrittenNow(path) || (result?.attempt ?? 0) > attempt) obsolete.push(partial);
    else if (result === undefined) newest.set(path, partial);
  }
  const isWhole = isInGoodSet(generations);
  const onlyCopies = [...newest.values()];
  return {
    obsolete,
    whole: onlyCopies.filter(isWhole),
    unproven: onlyCopies.filter((partial) => !isWhole(partial)),
  };
}

/** For a result that is a checkpoint as well: true if a set that no death is suspected of holds exactly these bytes. */
function isInGoodSet(generations: readonly Generation[]): (partial: StoredFile) => boolean {
  const good = generations.filter(({ suspect, incomplete }) => suspect !== true && incomplete !== true);
  const members = good.flatMap((generation) => generation.members);
  return ({ path, md5, size }) =>
    members.some((member) => member.path === path && member.md5 === md5 && member.size === size);
}
