// Tells afterwards what failed on the way from the bytes of an object to those of the file: the store, or the content.
// A broken connection must never count as a corrupt object.
import { reasonOf } from '../model/errors.ts';

/** The bytes differ from what the record says. */
export class CorruptError extends Error {}

/** The bytes may be whole: nothing on this machine can decompress them. */
export class NoZstdError extends Error {
  constructor() {
    super('it is compressed with zstd, and this machine has none');
  }
}

/** The bytes as they are; `failure` tells the error that they ended with, if any. */
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

/** What a decompressor gives; its errors are the content's, unless there is none. */
export async function* orCorrupt(plain: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* plain;
  } catch (error) {
    if (error instanceof NoZstdError) throw error;
    throw new CorruptError(`it cannot be decompressed: ${reasonOf(error)}`, { cause: error });
  }
}
