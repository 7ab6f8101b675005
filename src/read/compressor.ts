// What every compressor does, whichever library makes the frames.
import type { CompressorName } from './worker-messages.ts';

export interface Compressor {
  readonly name: Exclude<CompressorName, 'none'>;
  /** One whole frame, in memory of its own. */
  once(bytes: Uint8Array, level: number): Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>>;
  /**
   * One frame of exactly `sizeBytes` bytes of source, at least one. A piece is valid until the next one is
   * asked for. Whoever stops before the end must say so with `return()`, as `for await` does.
   */
  stream(source: AsyncIterable<Uint8Array>, level: number, sizeBytes: number): AsyncGenerator<Uint8Array>;
}
