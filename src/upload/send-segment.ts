// The new end of one companion into one object. Knows nothing of generations: the caller names the key. Every
// segment is an object of its own that is only ever created, so no earlier one can be harmed.
import type { Piece } from '../model/checkpoint/companions.ts';
import type { FileFacts } from '../model/file/file-state.ts';
import { mayCompress } from '../model/format/keys.ts';
import type { Segment } from '../model/format/records.ts';
import { type RangeJob, SnapshotMoved } from '../read/reading.ts';
import { discard, metaOf, type Sender } from './send.ts';

export interface SegmentJob extends Omit<RangeJob, 'compression'> {
  /** Asked again while the key that it gave is taken; `first` is the segment's first byte. */
  readonly keyOf: (compressed: boolean) => string;
}

export type SegmentSent =
  /** The file holds the known pieces up to `first`; `segment` is what follows, undefined when nothing does. */
  | {
      readonly kind: 'stored';
      readonly first: number;
      readonly segment: Segment | undefined;
      readonly tail: Piece | undefined;
      readonly facts: FileFacts;
    }
  /** Cut back, replaced or removed since the range was chosen. */
  | { readonly kind: 'moved' }
  | { readonly kind: 'refused'; readonly why: string };

/** Reads and sends one range. Throws what the store throws; every state of the file is an outcome. */
export async function sendSegment(
  sender: Sender,
  { keyOf, ...range }: SegmentJob,
  signal?: AbortSignal,
): Promise<SegmentSent> {
  const compression = mayCompress(range.path) ? sender.compression : { kind: 'none' as const };
  for (;;) {
    const reading = await sender.workers.range({ ...range, compression }, signal);
    if (reading.kind === 'refused') return reading;
    if (reading.kind !== 'body') return { kind: 'moved' };
    // Nobody may be waiting for it yet when the reading fails: the upload reports the failure.
    reading.done.catch(() => undefined);
    const { first = 0, compressed, facts } = reading;
    try {
      if (first === range.end) {
        const { tail } = await reading.done;
        return { kind: 'stored', first, segment: undefined, tail, facts };
      }
      const key = keyOf(compressed);
      const push = sender.newId();
      const size = range.end - first;
      const outcome = await sender.store.put(key, reading.parts, {
        meta: metaOf(sender, push, { ...facts, size }, reading.md5),
        ifAbsent: true,
        release: reading.parts.release,
        signal,
      });
      if (outcome === 'exists') continue;
      const { md5, tail } = await reading.done;
      return { kind: 'stored', first, segment: { key, push, first, size, md5, compressed }, tail, facts };
    } catch (error) {
      if (error instanceof SnapshotMoved) return { kind: 'moved' };
      throw error;
    } finally {
      await discard(reading.parts);
    }
  }
}
