// Tells whether the store or the content failed between the bytes of an object and those of the file. A broken
// connection must never count as a corrupt object.
import { reasonOf } from '../model/errors.ts';

/** The bytes differ from the record. */
export class CorruptError extends Error {}

/** The bytes may be whole, but this machine cannot decompress them. */
export class NoZstdError extends Error {
  constructor() {
    super('it is compressed with zstd, and this machine has none');
  }
}

/** Passes the bytes on. `failure` returns the error that ended them, if any. */
export function noteFailure(body: AsyncIterable<Uint8Array>): {
  readonly body: AsyncIterable<Uint8Array>;
  readonly failure: () => unknown;
} {
  let failure: unknown;
  const noted = async function* noted(): AsyncGenerator<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      failure = error;
      throw error;
    }
  };
  return { body: noted(), failure: () => failure };
}

/** Passes a decompressor's output on. Its errors become CorruptError, except a missing zstd. */
export async function* orCorrupt(plain: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* plain;
  } catch (error) {
    if (error instanceof NoZstdError) throw error;
    throw new CorruptError(`it cannot be decompressed: ${reasonOf(error)}`, { cause: error });
  }
}
