// Companions: append-only files that the task keeps open. They are stored as segments, which a restore joins. Pure:
// says which stored segments are still valid and what to read. The list of segments is bounded, and the same bytes are
// sent at most a few times to keep it so.
import type { Fingerprint } from '../file/file-state.ts';
import type { Companion, Segment } from '../format/records.ts';

/** A file counts as appended to if this many bytes before the end of the stored part are unchanged. */
export const TAIL_BYTES = 64 * 2 ** 10;
/** Most segments of one companion: every record lists them all. */
export const MOST_SEGMENTS = 100;

/** The bytes `first` to `first + size` of a file, and their md5. */
export interface FilePiece {
  readonly first: number;
  readonly size: number;
  readonly md5: string;
}

/** What is stored of a companion, and the state of the file at that reading. */
export interface CapturedCompanion {
  readonly companion: Companion;
  /** Undefined for a companion of an earlier attempt: nobody knows which local file it is. */
  readonly source: { readonly fingerprint: Fingerprint; readonly tail: FilePiece | undefined } | undefined;
}

/** What to read of a companion. */
export interface SegmentPlan {
  /** Stored segments, in order, that remain if the file still holds their bytes. */
  readonly known: readonly Segment[];
  /** If these bytes are unchanged, all known segments count as unchanged. Undefined: check each segment. */
  readonly tail: FilePiece | undefined;
  /** One past the last byte to read. */
  readonly end: number;
}

/** Undefined if the file has not changed since the last capture. */
export function planSegments(
  captured: CapturedCompanion | undefined,
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
 * The stored segments to keep beside a new one that ends at `end`. If there are too many, keep only the leading ones
 * that are each larger than everything after them, and send the rest again as one. So each segment is at most half as
 * large as the one before, and a byte is sent at most as often as the total size has binary digits.
 */
function stayingSegments(segments: readonly Segment[], end: number, most: number): readonly Segment[] {
  if (segments.length < most) return segments;
  const firstSmall = segments.findIndex(({ first, size }) => size <= end - (first + size));
  return segments.slice(0, firstSmall === -1 ? segments.length : firstSmall);
}

/** True if every companion of `before` continues in `now`: none was truncated, replaced or removed. */
export function companionsContinue(before: readonly Companion[], now: readonly Companion[]): boolean {
  const byPath = new Map(now.map((companion) => [companion.path, companion]));
  return before.every(({ path, segments }) => {
    const next = byPath.get(path)?.segments ?? [];
    return segments.every(({ key }, at) => next[at]?.key === key);
  });
}

/** True if both name the same objects: nothing was stored in between. */
export function sameCompanions(a: readonly Companion[], b: readonly Companion[]): boolean {
  return keysOf(a) === keysOf(b);
}

function keysOf(companions: readonly Companion[]): string {
  return JSON.stringify(companions.map(({ path, segments }) => [path, segments.map(({ key }) => key)]));
}
