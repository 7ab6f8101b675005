// What to do with partial results of earlier attempts when the index is done. Pure: says which objects nobody needs
// any more, which hold a whole result, and which results are stored nowhere else.
import type { Generation, StoredFile } from '../format/records.ts';

export interface SortedPartials {
  /** The result was stored whole later. */
  readonly obsolete: readonly StoredFile[];
  /** Nothing newer of the result is stored whole, and these bytes are proven whole. */
  readonly whole: readonly StoredFile[];
  /** Nothing newer of the result is stored whole, and it is unknown whether these bytes are complete. */
  readonly unproven: readonly StoredFile[];
}

export interface PartialsQuestion {
  /** {@link oldestFirst} */
  readonly partials: Iterable<StoredFile>;
  /** The stored object of a result; undefined if there is none. */
  readonly resultOf: (path: string) => StoredFile | undefined;
  /** The task of this attempt closed the result, even if it is empty, or left it unchanged and ended with 0. */
  readonly isWrittenNow: (path: string) => boolean;
  /** A later attempt has written only the rest of the result, so no part of it may be deleted. */
  readonly isLacking: (path: string) => boolean;
  /** A good generation followed it. */
  readonly isProven: (partial: StoredFile) => boolean;
  readonly generations: readonly Generation[];
}

export function sortPartials(question: PartialsQuestion): SortedPartials {
  const { resultOf, isWrittenNow, isLacking, isProven, generations } = question;
  const isInSet = isInGoodSet(generations);
  // At the end of its attempt nothing was found against it, but no time was left to give it the result's name.
  const isWhole = (partial: StoredFile): boolean =>
    partial.suspect !== true || isProven(partial) || isInSet(partial);
  const obsolete: StoredFile[] = [];
  const needed = new Map<string, StoredFile[]>();
  for (const partial of question.partials) {
    const { path } = partial;
    if (isLacking(path)) continue;
    const result = resultOf(path);
    const isOver = isWrittenNow(path) || (result !== undefined && isElder(partial, result));
    // An empty file that the kernel closed for a dying process is not worth keeping.
    if (isOver || (partial.size === 0 && !isWhole(partial))) obsolete.push(partial);
    else needed.set(path, [...(needed.get(path) ?? []), partial]);
  }
  const whole: StoredFile[] = [];
  const unproven: StoredFile[] = [];
  for (const states of needed.values()) {
    const at = states.findLastIndex(isWhole);
    obsolete.push(...states.slice(0, Math.max(at, 0)));
    whole.push(...states.slice(Math.max(at, 0), at + 1));
    unproven.push(...states.slice(at + 1));
  }
  return { obsolete, whole, unproven };
}

/** Compares states by write time first, never by attempt alone: one attempt may close several. */
export function isElder(a: State, b: State): boolean {
  return oldestFirst(a, b) <= 0;
}

type State = Pick<StoredFile, 'attempt' | 'mtimeNs'>;

/** For sorting. */
export function oldestFirst(a: State, b: State): number {
  return a.attempt - b.attempt || Math.sign(Number(BigInt(a.mtimeNs) - BigInt(b.mtimeNs)));
}

/** For a result that is also a checkpoint: true if a good generation holds exactly these bytes. */
function isInGoodSet(generations: readonly Generation[]): (partial: StoredFile) => boolean {
  const good = generations.filter(({ suspect, incomplete }) => suspect !== true && incomplete !== true);
  const members = good.flatMap((generation) => generation.members);
  return ({ path, md5, size }) =>
    members.some((member) => member.path === path && member.md5 === md5 && member.size === size);
}
