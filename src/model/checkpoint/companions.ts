// Companions: append-only files that the task keeps open, stored as segments that a restore joins. Pure: says
// which stored segments still stand and what is to be read anew. It never lets the list of segments grow
// without bound, nor send the same bytes again more than a few times for that.
import type { Fingerprint } from '../file/fingerprint.ts';
import type { Companion, Segment } from '../format/records.ts';

/** Bytes before the end of the stored part that must be as they were for the file to count as appended to. */
export const TAIL_BYTES = 64 * 2 ** 10;
/** Segments of one companion: every record lists all of them. */
export const MOST_SEGMENTS = 100;

/** Bytes `first` to `first + size` of a file, by their md5. */
export interface Piece {
  readonly first: number;
  readonly size: number;
  readonly md5: string;
}

/** What is stored of a companion, and the state of the file that it was read from. */
export interface Captured {
  readonly companion: Companion;
  /** Undefined for a companion of an earlier attempt: which local file holds it is not known. */
  readonly source: { readonly fingerprint: Fingerprint; readonly tail: Piece | undefined } | undefined;
}

/** What is to be read. */
export interface SegmentPlan {
  /** Stored segments, in order, that stay if the file still holds their bytes. */
  readonly known: readonly Segment[];
  /** If these bytes are as they were, the known ones are taken to be; undefined: each is looked at. */
  readonly tail: Piece | undefined;
  /** One past the last byte to read. */
  readonly end: number;
}

/** Undefined when nothing has changed since. */
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
 * The segments that stay beside a new one up to `end`. When they become too many, only those at the front stay
 * of which each is larger than all that follows; the rest is sent again as one. So sizes at least halve from one
 * to the next, and no byte is sent more often than the size of the whole has binary digits.
 */
function stayingSegments(segments: readonly Segment[], end: number, most: number): readonly Segment[] {
  if (segments.length < most) return segments;
  const firstSmall = segments.findIndex(({ first, size }) => size <= end - (first + size));
  return segments.slice(0, firstSmall === -1 ? segments.length : firstSmall);
}

/** True when every companion of `before` goes on in `now`: nothing was cut, made anew or removed. */
export function goOn(before: readonly Companion[], now: readonly Companion[]): boolean {
  const byPath = new Map(now.map((companion) => [companion.path, companion]));
  return before.every(({ path, segments }) => {
    const next = byPath.get(path)?.segments ?? [];
    return segments.every(({ key }, at) => next[at]?.key === key);
  });
}

/** True when both name the same objects: nothing has been stored in between. */
export function sameCompanions(a: readonly Companion[], b: readonly Companion[]): boolean {
  return keysOf(a) === keysOf(b);
}

function keysOf(companions: readonly Companion[]): string {
  return JSON.stringify(
    companions.map(({ path, closed = false, segments }) => [path, closed, segments.map(({ key }) => key)]),
  );
}
