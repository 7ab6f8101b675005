// Joins a companion's bytes from its segments. Each is checked against its record before the next is asked for. If one
// is missing or corrupt, all of it is given up: a companion with a hole is worse than none.
import { createMd5 } from '../model/md5.ts';
import { plural } from '../model/units.ts';
import type { Store } from '../store/contract/store.ts';
import { objectStream, type StreamOptions } from './object-stream.ts';
import { CorruptError, noteFailure, orCorrupt } from './failure.ts';
import type { SegmentSource } from './source.ts';

export interface JoinOptions extends Omit<StreamOptions, 'sizeHintBytes'> {
  readonly decompress: (stored: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
}

/** All bytes. Throws CorruptError, what {@link objectStream} throws, and what the store throws. */
export async function* joinSegments(
  store: Store,
  segments: readonly SegmentSource[],
  options: JoinOptions,
): AsyncGenerator<Uint8Array> {
  // oxlint-disable-next-line no-await-in-loop -- in the order of the file
  for (const segment of segments) yield* bytesOf(store, segment, options);
}

async function* bytesOf(
  store: Store,
  { key, compressed, size, md5: expected }: SegmentSource,
  { decompress, ...options }: JoinOptions,
): AsyncGenerator<Uint8Array> {
  const stored = noteFailure(objectStream(store, key, { ...options, sizeHintBytes: size }));
  const md5 = createMd5();
  let at = 0;
  try {
    for await (const chunk of compressed ? orCorrupt(decompress(stored.body)) : stored.body) {
      at += chunk.length;
      // At once, not at the end: a frame can unfold to more than any disk holds.
      if (at > size)
        throw new CorruptError(`${key} is longer than the ${plural(size, 'byte')} of its record`);
      md5.update(chunk);
      yield chunk;
    }
  } catch (error) {
    // What the store threw comes first: a decompressor may have made another error of it.
    throw stored.failure() ?? error;
  }
  if (at < size) throw new CorruptError(`${key} has ${plural(at, 'byte')}, its record says ${size}`);
  if (md5.digest() !== expected) throw new CorruptError(`${key} has not the md5 of its record`);
}
