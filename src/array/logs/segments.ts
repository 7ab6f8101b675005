// What is stored of the output of one index, from one listing: attempts, their streams, and the segments of each. Reads
// no record and no segment.
import {
  type OutputSegment,
  type OutputStream,
  outputPrefix,
  parseOutputKey,
} from '../../model/format/output-keys.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import { fitting } from '../../native/heap.ts';
import type { Store } from '../../store/contract/store.ts';

export interface ListedSegment extends OutputSegment {
  readonly key: string;
  /** Of the object as it is now: a segment that grows is replaced. */
  readonly version: string;
}

/** What is kept of a segment. */
const LISTED_BYTES = 300;

/** All segments of an index, in the order of their keys: by attempt, stream and place. */
export async function listSegments(
  store: Store,
  scope: KeyScope,
  signal: AbortSignal,
): Promise<readonly ListedSegment[]> {
  const found: ListedSegment[] = [];
  const listed = store.list(outputPrefix(scope), signal);
  for await (const { key, sizeBytes, modifiedMs } of fitting(listed, LISTED_BYTES, 'pieces of output')) {
    const segment = parseOutputKey(key);
    if (segment !== undefined) found.push({ ...segment, key, version: `${sizeBytes} ${modifiedMs}` });
  }
  return found;
}

export function newestAttempt(segments: readonly ListedSegment[]): number | undefined {
  return segments.length === 0 ? undefined : Math.max(...segments.map(({ attempt }) => attempt));
}

/** As a person would read them: one after the other. */
const STREAMS: readonly OutputStream[] = ['output', 'stdout', 'stderr'];

/** The streams that there are of an attempt, and their segments. */
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
