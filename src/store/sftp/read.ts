// Looks at objects and reads them. Size, metadata and bytes are of one state, also while others replace it: the server keeps
// an open file whatever becomes of its name. A body that ends too early throws.
import { untilAborted } from '../../model/waiting.ts';
import { firstChunks, joined, releasing } from '../contract/driver.ts';
import {
  type GetOptions,
  type GotObject,
  type ObjectHead,
  type ObjectMeta,
  StoreError,
} from '../contract/store.ts';
import { failureFor } from './failure.ts';
import { isSame, readMeta, tagOf } from './metadata.ts';
import { check, closeLater, pathOf, type Place, request } from './place.ts';
import { type Attrs, kindOf, type Session, unlessMissing } from './session.ts';

/** Each chunk is read with several requests at once, and the next one while it is used. */
const CHUNK_BYTES = 2 ** 20;

interface Found {
  readonly attrs: Attrs;
  readonly meta: ObjectMeta;
}

export interface OpenState extends Found {
  readonly handle: Buffer;
}

export async function headObject(
  place: Place,
  key: string,
  signal?: AbortSignal,
): Promise<ObjectHead | undefined> {
  return request(place, { verb: 'head', key, signal }, async (session) => {
    const [found] = await Promise.all([look(session, place, key), check(session, place)]);
    return found === undefined ? undefined : headOf(key, found);
  });
}

/** The state that is under the key; undefined if there is no file. */
export async function look(session: Session, place: Place, key: string): Promise<Found | undefined> {
  const path = pathOf(place, key);
  for (;;) {
    const attrs = await session.stat(path).catch(unlessMissing);
    if (attrs === undefined || kindOf(attrs) !== 'file') return undefined;
    const meta = await metaOf(session, place, key, attrs);
    if (meta !== 'replaced') return { attrs, meta };
  }
}

/** The state that is under the key, open for reading. */
export async function openState(session: Session, place: Place, key: string): Promise<OpenState | undefined> {
  const path = pathOf(place, key);
  for (;;) {
    // Opening a FIFO would block the server.
    const seen = await session.stat(path).catch(unlessMissing);
    if (seen === undefined || kindOf(seen) !== 'file') return undefined;
    const handle = await session.open(path, 'r').catch(unlessMissing);
    if (handle === undefined) return undefined;
    const attrs = await session.fstat(handle);
    const meta = await metaOf(session, place, key, attrs);
    if (meta !== 'replaced') return { handle, attrs, meta };
    closeLater(session, handle);
  }
}

/** No metadata: a user put the file there, or the state was replaced and its metadata are already gone. */
async function metaOf(
  session: Session,
  place: Place,
  key: string,
  attrs: Attrs,
): Promise<ObjectMeta | 'replaced'> {
  const meta = await readMeta(session, place, key, attrs);
  if (meta !== undefined) return meta;
  const now = await session.stat(pathOf(place, key)).catch(unlessMissing);
  return now !== undefined && isSame(now, attrs) ? {} : 'replaced';
}

function headOf(key: string, { attrs, meta }: Found): ObjectHead {
  return {
    key,
    tag: tagOf(attrs, meta),
    sizeBytes: attrs.sizeBytes,
    meta,
    modifiedMs: attrs.mtimeS * 1000,
    permissions: attrs.mode & 0o777,
  };
}

export async function getObject(
  place: Place,
  key: string,
  { range, aheadBytes = -1, signal }: GetOptions,
): Promise<GotObject | undefined> {
  return request(place, { verb: 'get', key, signal }, async (session) => {
    const [found] = await Promise.all([openState(session, place, key), check(session, place)]);
    if (found === undefined) return undefined;
    const { handle, attrs } = found;
    const close = async (): Promise<void> => closeLater(session, handle);
    // Nobody waits for it any more.
    if (signal?.aborted === true) await close();
    signal?.throwIfAborted();
    const first = range?.first ?? 0;
    const end = Math.min((range?.last ?? Infinity) + 1, attrs.sizeBytes);
    if (range !== undefined && first >= end) {
      await close();
      const why = `no bytes from ${first} on, it has ${attrs.sizeBytes}`;
      throw new StoreError('refused', `get ${place.url}/${key}: ${why}`);
    }
    const rest = bytesOf(session, place, { key, state: found, first, end, signal });
    const chunks = joined(await firstChunks(rest, aheadBytes), rest);
    return { ...headOf(key, found), body: abortable(releasing(chunks, close), signal) };
  });
}

/** The same items. Once the signal aborts, nobody waits for the next one, or for the end. */
export function abortable<T>(
  items: AsyncIterable<T>,
  signal: AbortSignal | undefined,
): AsyncIterableIterator<T> {
  const from = items[Symbol.asyncIterator]();
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => untilAborted(from.next(), signal),
    return: async () => {
      const closed = Promise.resolve(from.return?.()).catch((error: unknown) => {
        if (signal?.aborted !== true) throw error;
      });
      if (signal?.aborted !== true) await closed;
      return { done: true, value: undefined };
    },
  };
}

interface Range {
  readonly key: string;
  readonly state: OpenState;
  readonly first: number;
  /** Exclusive. */
  readonly end: number;
  readonly signal: AbortSignal | undefined;
}

async function* bytesOf(
  session: Session,
  place: Place,
  { key, state: { handle, attrs }, first, end, signal }: Range,
): AsyncGenerator<Uint8Array> {
  const read = (at: number): Promise<Buffer> | undefined => {
    if (at >= end) return undefined;
    const chunk = readChunk(session, handle, at, Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, end - at)));
    // Its error is thrown where it is awaited.
    chunk.catch(() => undefined);
    return chunk;
  };
  try {
    let next = read(first);
    for (let at = first; at < end; at += CHUNK_BYTES) {
      signal?.throwIfAborted();
      const ahead = read(at + CHUNK_BYTES);
      const chunk = (await next) ?? Buffer.alloc(0);
      next = ahead;
      // What a user has put there may be written in place.
      if (at + chunk.length === end && !isSame(await session.fstat(handle), attrs))
        throw new StoreError('transient', `get ${place.url}/${key}: it was written while it was read`);
      yield chunk;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw await failureFor(error, { operation: `get ${place.url}/${key}`, session, at: place.directory });
  } finally {
    closeLater(session, handle);
  }
}

/** Fills a chunk with several reads at once. */
export async function readChunk(
  session: Session,
  handle: Buffer,
  from: number,
  chunk: Buffer,
): Promise<Buffer> {
  const reads: Promise<void>[] = [];
  for (let at = 0; at < chunk.length; at += session.pieceBytes)
    reads.push(fill(session, handle, from + at, chunk.subarray(at, at + session.pieceBytes)));
  await Promise.all(reads);
  return chunk;
}

/** Fewer bytes than asked for are the end of a file (section 6.4), or of what ssh2 asks for at once. */
async function fill(session: Session, handle: Buffer, position: number, piece: Buffer): Promise<void> {
  for (let at = 0; at < piece.length;) {
    const bytes = await session.read(handle, piece.subarray(at), position + at);
    if (bytes === 0) throw new StoreError('transient', `the file ended at byte ${position + at}`);
    at += bytes;
  }
}
