// Reads one stream of one attempt from its segments as they arrive. It returns each byte once and in order, and reports
// gaps between segments.
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { formatBytes } from '../model/units.ts';
import { decompressStream } from '../restore/decompress.ts';
import { CorruptError, noteFailure, orCorrupt } from '../restore/failure.ts';
import { ObjectMissingError, objectStream } from '../restore/object-stream.ts';
import type { Store } from '../store/contract/store.ts';
import type { ListedSegment } from './segments.ts';

/** A follower of output seals a segment long before. */
const MOST_SEGMENT_BYTES = 64 * 2 ** 20;

export interface StreamReaderOptions {
  readonly store: Store;
  readonly write: (bytes: Uint8Array) => Promise<void>;
  /** Called for output that is not stored. */
  readonly onGap: (what: string) => void;
  readonly signal: AbortSignal;
}

export class StreamReader {
  readonly #options: StreamReaderOptions;
  /** End of the data that was returned, in bytes of the stream. */
  #end = 0;
  /** The last segment that was read, in its version: it may have grown since. */
  #last: string | undefined;

  constructor(options: StreamReaderOptions) {
    this.#options = options;
  }

  /** Returns what is new in these segments. They are all listed segments of the stream. */
  async read(segments: readonly ListedSegment[]): Promise<void> {
    for (const [at, segment] of segments.entries()) {
      // If another segment follows, this one has its full length. It was read completely if the next one starts before
      // the end of the data read.
      const next = segments[at + 1];
      if (next !== undefined && next.first <= this.#end) continue;
      const name = `${segment.key} ${segment.version}`;
      if (name === this.#last) continue;
      this.#sayGap(segment.first);
      await this.#give(segment);
      this.#last = name;
    }
  }

  #sayGap(first: number): void {
    if (first <= this.#end) return;
    const missing = formatBytes(first - this.#end);
    // Where all is stored, the beginning always is.
    this.#options.onGap(
      this.#end === 0
        ? `the first ${missing} are not stored: only --log-output stores more than the end of a failure`
        : `${missing} are not stored here (--log-output-limit)`,
    );
    this.#end = first;
  }

  #sayTooLong(): void {
    this.#options.onGap(
      `more than ${formatBytes(MOST_SEGMENT_BYTES)} in one piece: capture has not stored that`,
    );
  }

  async #give(segment: ListedSegment): Promise<void> {
    const { store, signal, write } = this.#options;
    const stored = noteFailure(
      objectStream(store, segment.key, { parallel: 1, sizeHintBytes: undefined, signal }),
    );
    let at = segment.first;
    try {
      for await (const piece of segment.compressed ? orCorrupt(decompressStream(stored.body)) : stored.body) {
        const known = Math.max(0, this.#end - at);
        at += piece.length;
        if (at - segment.first > MOST_SEGMENT_BYTES) return this.#sayTooLong();
        if (known >= piece.length) continue;
        await write(piece.subarray(known));
        this.#end = at;
      }
    } catch (thrown) {
      // The store's error comes first: the decompressor may have turned it into another one.
      const error = stored.failure() ?? thrown;
      // Deleted since the listing because of the limit. The next segment reports the gap.
      if (error instanceof ObjectMissingError) return;
      if (!(error instanceof CorruptError)) throw error;
      throw new CaptureError(EXIT.unavailable, `${segment.key} is damaged: ${error.message}`, {
        hint: 'bring back a copy of the object (versions of the bucket)',
        cause: error,
      });
    }
  }
}
