// The last lines that the task of an index wrote: the reason of a failure in its own words. From the stored output, of
// which only the end is read.
import type { Log } from '../log/log.ts';
import type { LastOutput, State } from '../model/format/json-output.ts';
import { reasonOf } from '../model/errors.ts';
import type { OutputStream } from '../model/format/output-keys.ts';
import { LAST_LINES_BYTES, lastLinesOf } from '../model/last-lines.ts';
import { StoreError } from '../store/contract/store.ts';
import { listSegments, type ListedSegment, streamsOf } from './segments.ts';
import type { StoredArray } from './stored-array.ts';
import { StreamReader } from './stream-reader.ts';

interface Tools {
  readonly log: Pick<Log, 'warn'>;
  readonly signal: AbortSignal;
}

/** In these states a person asks why. */
export function isWorthAsking(state: State): boolean {
  return state === 'failed' || state === 'stale';
}

/**
 * The last lines of each stream of an attempt; none if nothing is stored. Costs one listing, and at most two requests
 * for each stream. Throws the store's errors; what is damaged is a warning.
 */
export async function lastOutput(
  { store, taskName }: Pick<StoredArray, 'store' | 'taskName'>,
  { index, attempt }: { readonly index: string; readonly attempt: number },
  { log, signal }: Tools,
): Promise<readonly LastOutput[]> {
  const found: LastOutput[] = [];
  const segments = await listSegments(store, { taskName, index }, signal);
  for (const [stream, ofStream] of streamsOf(segments, attempt)) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- two at most
      const lines = lastLinesOf(await endOf(store, ofStream, signal));
      if (lines.length > 0) found.push({ stream, lines });
    } catch (error) {
      if (signal.aborted || error instanceof StoreError) throw error;
      log.warn(`the last lines of index ${index} cannot be read: ${reasonOf(error)}`);
    }
  }
  return found;
}

/** The last segment may have few lines, so the one before it is read, too. */
async function endOf(
  store: StoredArray['store'],
  segments: readonly ListedSegment[],
  signal: AbortSignal,
): Promise<Uint8Array> {
  let end = Buffer.alloc(0);
  const reader = new StreamReader({
    store,
    write: async (bytes) => {
      end = Buffer.concat([end, bytes]).subarray(-LAST_LINES_BYTES);
    },
    onGap: () => undefined,
    signal,
  });
  await reader.read(segments.slice(-2));
  return end;
}

/** `stdout and stderr` if both are one file. */
export function streamText(stream: OutputStream): string {
  return stream === 'output' ? 'stdout and stderr' : stream;
}
