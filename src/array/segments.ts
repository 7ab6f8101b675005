// The stored output of one index, from one listing: attempts, their streams, and the segments of each stream. Reads no
// record and no segment.
import {
  type OutputSegment,
  type OutputStream,
  outputPrefix,
  parseOutputKey,
} from '../model/format/output-keys.ts';
import type { KeyScope } from '../model/format/keys.ts';
import { fittingInHeap } from '../native/heap.ts';
import type { Store } from '../store/contract/store.ts';

export interface ListedSegment extends OutputSegment {
  readonly key: string;
  /** Version of the object: a segment that grows is replaced. */
  readonly version: string;
}

/** Memory for a segment. */
const LISTED_BYTES = 300;

/** All segments of an index, in the order of their keys: by attempt, stream and position. */
export async function listSegments(
  store: Store,
  scope: KeyScope,
  signal: AbortSignal,
): Promise<readonly ListedSegment[]> {
  const found: ListedSegment[] = [];
  const listed = store.list(outputPrefix(scope), signal);
  for await (const { key, sizeBytes, modifiedMs } of fittingInHeap(
    listed,
    LISTED_BYTES,
    'pieces of output',
  )) {
    const segment = parseOutputKey(key);
    if (segment !== undefined) found.push({ ...segment, key, version: `${sizeBytes} ${modifiedMs}` });
  }
  return found;
}

export function newestAttempt(segments: readonly ListedSegment[]): number | undefined {
  return segments.length === 0 ? undefined : Math.max(...segments.map(({ attempt }) => attempt));
}

/** The order in which a person reads them. */
const STREAMS: readonly OutputStream[] = ['output', 'stdout', 'stderr'];

/** The streams of an attempt, and their segments. */
export function streamsOf(
  segments: readonly ListedSegment[],
  attempt: number,
): ReadonlyMap<OutputStream, readonly ListedSegment[]> {
  const ofAttempt = segments.filter((segment) => segment.attempt === attempt);
  return new Map(
    STREAMS.map((stream) => [stream, ofAttempt.filter((one) => one.stream === stream)] as const).filter(
      ([, found]) => found.length > 0,
    ),
  );
}
