// One stream of one attempt, read from its segments as they come: each byte is given once, in order, and what is missing
// between two segments is said.
import { formatBytes } from '../../model/units.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { ObjectMissingError, objectStream } from '../../restore/object-stream.ts';
import type { Store } from '../../store/contract/store.ts';
import type { ListedSegment } from './segments.ts';

export interface StreamReaderOptions {
  readonly store: Store;
  readonly write: (bytes: Uint8Array) => Promise<void>;
  /** Told what was left out by --log-output-limit. */
  readonly onGap: (what: string) => void;
  readonly signal: AbortSignal;
}

export class StreamReader {
  readonly #options: StreamReaderOptions;
  /** Up to here all was given, in bytes of the stream. */
  #end = 0;
  /** The last segment that was read, as it was: it may have grown since. */
  #last: string | undefined;

  constructor(options: StreamReaderOptions) {
    this.#options = options;
  }

  /** Gives what is new in these segments, all that are listed of the stream. */
  async read(segments: readonly ListedSegment[]): Promise<void> {
    for (const [at, segment] of segments.entries()) {
      // What another follows has its full length, and was read if it begins before the end of what was.
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
    this.#options.onGap(`${formatBytes(first - this.#end)} are not stored here (--log-output-limit)`);
    this.#end = first;
  }

  async #give(segment: ListedSegment): Promise<void> {
    const { store, signal, write } = this.#options;
    const stored = objectStream(store, segment.key, { parallel: 1, sizeHintBytes: undefined, signal });
    let at = segment.first;
    try {
      for await (const piece of segment.compressed ? decompressStream(stored) : stored) {
        const known = Math.max(0, this.#end - at);
        at += piece.length;
        if (known >= piece.length) continue;
        await write(piece.subarray(known));
        this.#end = at;
      }
    } catch (error) {
      // Deleted since the listing, as there is too much of it: the next one says what is missing.
      if (!(error instanceof ObjectMissingError)) throw error;
    }
  }
}
