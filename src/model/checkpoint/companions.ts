// Companions: append-only files that the task keeps open, stored as segments that a restore joins. Pure: says which
// stored segments still stand and what must be read anew. Never lets the list of segments grow without bound, nor
// sends the same bytes more than a few times to prevent that.
import type { Fingerprint } from '../file/file-state.ts';
import type { Companion, Segment } from '../format/records.ts';

/** For the file to count as appended to, so many bytes before the end of the stored part must be unchanged. */
export const TAIL_BYTES = 64 * 2 ** 10;
/** Segments of one companion: every record lists them all. */
export const MOST_SEGMENTS = 100;

/** The bytes `first` to `first + size` of a file, by their md5. */
export interface Piece {
  readonly first: number;
  readonly size: number;
  readonly md5: string;
}

/** What is stored of a companion, and the state of the file that it was read from. */
export interface Captured {
  readonly companion: Companion;
  /** Undefined for a companion of an earlier attempt: nobody knows which local file holds it. */
  readonly source: { readonly fingerprint: Fingerprint; readonly tail: Piece | undefined } | undefined;
}

/** What must be read. */
export interface SegmentPlan {
  /** Stored segments, in order, that stay if the file still holds their bytes. */
  readonly known: readonly Segment[];
  /** If these bytes are unchanged, the known segments count as unchanged; undefined: each is checked. */
  readonly tail: Piece | undefined;
  /** One past the last byte to read. */
  readonly end: number;
}

/** Undefined if nothing has changed since. */
export function planSegments(
  captured: Captured | undefined,
  now: Fingerprint,
  most = MOST_SEGMENTS,
): SegmentPlan | undefined {
  if (captured === undefined) return { known: [], tail: undefined, end: now.size };
  const { companion, source } = captured;
  const before = source?.fingerprint;
  const sameFile = before?.dev === now.dev && before.ino === now.ino;
  if (sameFile && before.size === now.size && before.mtimeNs === now.mtimeNs) return undefined;
  const fitting = companion.segments.filter(({ first, size }) => first + size <= now.size);
  const isLonger = sameFile && companion.size <= now.size;
  return {
    known: stayingSegments(fitting, now.size, most),
    tail: isLonger ? source?.tail : undefined,
    end: now.size,
  };
}

/**
 * The segments that stay beside a new one up to `end`. If they become too many, only those at the front stay that are
 * each larger than everything after them; the rest is sent again as one. So sizes at least halve from one to the
 * next, and no byte is sent more often than the size of the whole has binary digits.
 */
function stayingSegments(segments: readonly Segment[], end: number, most: number): readonly Segment[] {
  if (segments.length < most) return segments;
  const firstSmall = segments.findIndex(({ first, size }) => size <= end - (first + size));
  return segments.slice(0, firstSmall === -1 ? segments.length : firstSmall);
}

/** True if every companion of `before` continues in `now`: none was cut, made anew or removed. */
export function goOn(before: readonly Companion[], now: readonly Companion[]): boolean {
  const byPath = new Map(now.map((companion) => [companion.path, companion]));
  return before.every(({ path, segments }) => {
    const next = byPath.get(path)?.segments ?? [];
    return segments.every(({ key }, at) => next[at]?.key === key);
  });
}

/** True if both name the same objects: nothing has been stored in between. */
export function sameCompanions(a: readonly Companion[], b: readonly Companion[]): boolean {
  return keysOf(a) === keysOf(b);
}

function keysOf(companions: readonly Companion[]): string {
  return JSON.stringify(companions.map(({ path, segments }) => [path, segments.map(({ key }) => key)]));
}
