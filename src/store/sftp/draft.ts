// A temporary file on the server that becomes an object: what one put has sent so far, and over which session. It keeps a
// put alive while sessions come and go.
import { crc32 } from 'node:zlib';
import { type ObjectMeta, type PutOptions, StoreError } from '../contract/store.ts';
import { metaText, noteClock } from './metadata.ts';
import {
  closeLater,
  make,
  META_SUFFIX,
  newTemporary,
  objectMode,
  ownMode,
  type Place,
  request,
} from './place.ts';
import { readChunk } from './read.ts';
import { type Session, unlessMissing } from './session.ts';

/** Of one body on their way: as much as a link of 1 Gbit/s carries in 30 ms. */
const PIECES_AT_ONCE = 32;
const READ_BYTES = 2 ** 20;

export interface Draft {
  readonly place: Place;
  readonly key: string;
  readonly meta: ObjectMeta;
  /** A file with key and metadata. */
  readonly note: string;
  /** Where the temporary may be: the last of these, unless the answer to its renaming was lost. */
  readonly names: string[];
  readonly mode: number;
  sizeBytes: number;
  crc: number;
  /** Its open file, and in which session. */
  open: { readonly session: Session; readonly handle: Promise<Buffer> } | undefined;
  /** A session was lost, and perhaps the server's memory with it. */
  isDoubtful: boolean;
  /** Fills it again, if we do not have its bytes. */
  refill: ((session: Session) => Promise<void>) | undefined;
  /** The server was asked to give it its name. */
  mayBePlaced: boolean;
  hasEnded: boolean;
}

export function newDraft(place: Place, key: string, meta: ObjectMeta, mostMode?: number): Draft {
  const name = newTemporary(place);
  return {
    place,
    key,
    meta,
    note: name + META_SUFFIX,
    names: [name],
    mode: objectMode(place, meta, mostMode),
    sizeBytes: 0,
    crc: 0,
    open: undefined,
    isDoubtful: false,
    refill: undefined,
    mayBePlaced: false,
    hasEnded: false,
  };
}

/** Makes the file and its note. May be repeated. */
export async function begin(session: Session, draft: Draft): Promise<void> {
  const { place } = draft;
  await make(session, place);
  draft.open = { session, handle: session.open(nameOf(draft), 'w', draft.mode) };
  await Promise.all([draft.open.handle, writeNote(session, draft)]);
  draft.isDoubtful = false;
}

export async function writeNote(session: Session, { place, note, key, meta }: Draft): Promise<void> {
  const handle = await session.open(note, 'w', ownMode(place));
  await session.write(handle, metaText(key, meta), 0);
  closeLater(session, handle);
}

/** Makes the note durable, and returns the time of the server's clock, s: that of this write. */
export async function syncNote(session: Session, { place, note, key, meta }: Draft): Promise<number> {
  const handle = await session.open(note, 'r+').catch(unlessMissing);
  if (handle === undefined) throw removed(place, key);
  await session.write(handle, metaText(key, meta), 0);
  const [attrs] = await Promise.all([session.fstat(handle), session.sync(handle)]);
  closeLater(session, handle);
  noteClock(place, attrs);
  return attrs.mtimeS;
}

export function nameOf({ names }: Draft): string {
  return names.at(-1) ?? '';
}

/** The sweep of an attempt that has taken over from us. The fence tells us about it; until then we do not give up. */
export function removed(place: Place, key: string): StoreError {
  return new StoreError('transient', `put ${place.url}/${key}: its temporary was removed`);
}

/** The open file, in this session. */
export async function handleOn(session: Session, draft: Draft): Promise<Buffer> {
  if (draft.open?.session !== session) {
    draft.isDoubtful = true;
    draft.open = { session, handle: session.open(nameOf(draft), 'r+') };
    draft.open.handle.catch(() => undefined);
  }
  const handle = await draft.open.handle.catch(unlessMissing);
  if (handle === undefined) throw removed(draft.place, draft.key);
  return handle;
}

/** Sends a body, many pieces at once. What a lost session has not confirmed is sent again. */
export async function sendBody(
  draft: Draft,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { signal, onSent, release }: Pick<PutOptions, 'signal' | 'onSent' | 'release'>,
): Promise<void> {
  const pieceBytes = draft.open?.session.pieceBytes ?? 0;
  const pending = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const send = async (piece: Uint8Array, at: number): Promise<void> => {
    try {
      await sendPiece(draft, piece, at, signal);
      onSent?.(piece.byteLength);
    } catch (error) {
      failures.push(error);
    }
  };
  for await (const chunk of body) {
    signal?.throwIfAborted();
    draft.crc = crc32(chunk, draft.crc);
    const pieces: Promise<void>[] = [];
    for (let at = 0; at < chunk.byteLength; at += pieceBytes) {
      while (pending.size >= PIECES_AT_ONCE) await Promise.race(pending);
      if (failures.length > 0) throw failures[0];
      const piece = chunk.subarray(at, at + pieceBytes);
      const sending = send(piece, draft.sizeBytes);
      pending.add(sending);
      void sending.then(() => pending.delete(sending));
      pieces.push(sending);
      draft.sizeBytes += piece.byteLength;
    }
    void Promise.all(pieces).then(() => failures.length === 0 && release?.(chunk));
  }
  await Promise.all(pending);
  if (failures.length > 0) throw failures[0];
}

function sendPiece(
  draft: Draft,
  piece: Uint8Array,
  at: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { place, key } = draft;
  return request(place, { verb: 'put', key, signal }, async (session) => {
    const handle = await handleOn(session, draft);
    await place.inTurn(async () => {
      // The memory of a put that was given up may hold something else by now.
      signal?.throwIfAborted();
      if (draft.hasEnded) throw new Error('the put has ended');
      await session.write(handle, piece, at);
    });
  });
}

/**
 * Makes sure that the whole body is in the file: a server that was started again in between may have lost what it had
 * confirmed, before it was on its disk.
 */
export async function verify(session: Session, draft: Draft, handle: Buffer): Promise<void> {
  const where = `put ${draft.place.url}/${draft.key}`;
  if (draft.isDoubtful) await draft.refill?.(session);
  const { sizeBytes } = await session.fstat(handle);
  if (sizeBytes !== draft.sizeBytes)
    throw new StoreError('transient', `${where}: the server has ${sizeBytes} of ${draft.sizeBytes} bytes`);
  if (!draft.isDoubtful) return;
  let crc = 0;
  for (let at = 0; at < sizeBytes; at += READ_BYTES) {
    const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, sizeBytes - at));
    crc = crc32(await readChunk(session, handle, at, chunk), crc);
  }
  if (crc !== draft.crc)
    throw new StoreError('transient', `${where}: the server has lost bytes that it had confirmed`);
  draft.isDoubtful = false;
}

/**
 * Gives the temporary another name: a late request that names the old one finds nothing. False if there is no temporary:
 * the request was obeyed, or a sweep has taken it.
 */
export async function rename(session: Session, draft: Draft): Promise<boolean> {
  const earlier = [...draft.names].toReversed();
  const next = `${draft.names[0]}.${draft.names.length}`;
  draft.names.push(next);
  for (const name of earlier) {
    const isMoved = await session.rename(name, next).then(
      () => true,
      (error: unknown) => unlessMissing(error) ?? false,
    );
    if (isMoved) return true;
  }
  return false;
}

/** Removes what is left of it. What cannot be removed now, a sweep removes. */
export async function discard(draft: Draft): Promise<void> {
  draft.hasEnded = true;
  const { open, names, note } = draft;
  if (open === undefined || !open.session.isOpen) return;
  const { session } = open;
  open.handle.then((handle) => closeLater(session, handle)).catch(() => undefined);
  const remove = (path: string): Promise<void> => session.remove(path).catch(() => undefined);
  // The note last: it tells a sweep to whom the temporary belongs.
  await Promise.all(names.map(remove));
  await remove(note);
}
