// The age format, version 1 (age-encryption.org/v1): a header, a nonce of 16 bytes, and chunks of 64 KiB, each sealed by
// ChaCha20-Poly1305. The last chunk is marked, so an object that was cut short never opens. Nothing of a chunk is passed
// on before its tag is checked.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { newMemory } from '../native/memory.ts';
import { CorruptError } from '../restore/failure.ts';
import type { FileHeader } from './age.ts';

const CHUNK_BYTES = 64 * 2 ** 10;
const TAG_BYTES = 16;
const SEALED_CHUNK_BYTES = CHUNK_BYTES + TAG_BYTES;
const NONCE_BYTES = 16;
const KEY_BYTES = 32;
const CIPHER = 'chacha20-poly1305';
const TAG = { authTagLength: TAG_BYTES };
/** A header of a hundred recipients has 20 KiB. */
const MOST_HEADER_BYTES = 2 ** 20;
const NOTHING = Buffer.alloc(0);

/** One object on its way out. Each has a payload key of its own, also if it is sealed again for another try. */
class Sealing {
  readonly #key: Buffer;
  readonly #nonce = Buffer.alloc(12);
  #rest: Buffer = NOTHING;
  readonly begin: Buffer;

  constructor({ header, fileKey }: FileHeader) {
    const nonce = randomBytes(NONCE_BYTES);
    this.#key = payloadKey(fileKey, nonce);
    this.begin = Buffer.concat([header, nonce]);
  }

  /** All whole chunks of what is known, except the last one: more may follow. The memory has room for one chunk more. */
  push(bytes: Uint8Array, before: Buffer = NOTHING): Filled {
    const most = before.length + sealedBytes(this.#rest.length + bytes.length) + SEALED_CHUNK_BYTES;
    const out = new Filled(most);
    out.add(before);
    let at = 0;
    while (this.#rest.length + bytes.length - at > CHUNK_BYTES) {
      const taken = CHUNK_BYTES - this.#rest.length;
      const fresh = bytes.subarray(at, at + taken);
      this.#chunk(out, this.#rest.length === 0 ? [fresh] : [this.#rest, fresh], false);
      this.#rest = NOTHING;
      at += taken;
    }
    this.#rest = Buffer.concat([this.#rest, bytes.subarray(at)]);
    return out;
  }

  end(out: Filled): void {
    this.#chunk(out, [this.#rest], true);
  }

  #chunk(out: Filled, pieces: readonly Uint8Array[], isLast: boolean): void {
    const cipher = createCipheriv(CIPHER, this.#key, chunkNonce(this.#nonce, isLast), TAG);
    for (const piece of pieces) out.add(cipher.update(piece));
    cipher.final();
    out.add(cipher.getAuthTag());
  }
}

/** Memory that is filled from its beginning. */
class Filled {
  readonly #memory: Uint8Array;
  #bytes = 0;

  constructor(mostBytes: number) {
    this.#memory = newMemory(mostBytes);
  }

  add(bytes: Uint8Array): void {
    this.#memory.set(bytes, this.#bytes);
    this.#bytes += bytes.length;
  }

  get bytes(): Uint8Array {
    return this.#memory.subarray(0, this.#bytes);
  }
}

/** The whole object. */
export function sealWhole(bytes: Uint8Array, header: FileHeader): Uint8Array {
  const sealing = new Sealing(header);
  const out = sealing.push(bytes, sealing.begin);
  sealing.end(out);
  return out.bytes;
}

/**
 * The object in as many parts, each of hardly another size than the one that it is made of. A part leaves only when the
 * next one, or the end, is there. `release` is called for each part that is sealed.
 */
export async function* sealParts(
  parts: AsyncIterable<Uint8Array>,
  header: FileHeader,
  release: (part: Uint8Array) => void,
): AsyncGenerator<Uint8Array> {
  const sealing = new Sealing(header);
  let held: Filled | undefined;
  for await (const part of parts) {
    if (held !== undefined) yield held.bytes;
    held = sealing.push(part, held === undefined ? sealing.begin : NOTHING);
    release(part);
  }
  held ??= sealing.push(NOTHING, sealing.begin);
  sealing.end(held);
  yield held.bytes;
}

/**
 * The bytes that were sealed, each chunk once its tag is checked. Throws CorruptError if one byte was changed, left out
 * or added, the error of `keyOf`, and errors of `stored` unchanged.
 */
export async function* openPayload(
  stored: AsyncIterable<Uint8Array>,
  keyOf: (header: Uint8Array) => Promise<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  let rest: Buffer = NOTHING;
  let key: Buffer | undefined;
  const nonce = Buffer.alloc(12);
  let chunks = 0;
  const open = (chunk: Buffer, isLast: boolean): Buffer => {
    if (chunk.length < TAG_BYTES || (chunk.length === TAG_BYTES && chunks > 0)) throw new CutShortError();
    chunks += 1;
    return openChunk(key ?? NOTHING, chunkNonce(nonce, isLast), chunk);
  };
  for await (const piece of stored) {
    let known: Buffer = Buffer.concat([rest, piece]);
    if (key === undefined) {
      const end = headerEnd(known);
      if (end === undefined || known.length < end + NONCE_BYTES) {
        if (known.length > MOST_HEADER_BYTES)
          throw new CorruptError('it is sealed, and its header has no end');
        rest = known;
        continue;
      }
      key = payloadKey(await keyOf(known.subarray(0, end)), known.subarray(end, end + NONCE_BYTES));
      known = known.subarray(end + NONCE_BYTES);
    }
    let at = 0;
    for (; known.length - at > SEALED_CHUNK_BYTES; at += SEALED_CHUNK_BYTES)
      yield open(known.subarray(at, at + SEALED_CHUNK_BYTES), false);
    rest = known.subarray(at);
  }
  if (key === undefined) throw new CutShortError();
  const last = open(rest, true);
  if (last.length > 0) yield last;
}

class CutShortError extends CorruptError {
  constructor() {
    super('it is sealed, and was cut short');
  }
}

function openChunk(key: Buffer, nonce: Buffer, chunk: Buffer): Buffer {
  const cipher = createDecipheriv(CIPHER, key, nonce, TAG);
  cipher.setAuthTag(chunk.subarray(chunk.length - TAG_BYTES));
  const plain = cipher.update(chunk.subarray(0, chunk.length - TAG_BYTES));
  try {
    cipher.final();
  } catch (error) {
    throw new CorruptError('it is sealed, and was changed or cut short', { cause: error });
  }
  return plain;
}

/** 11 bytes that count the chunks, and one that marks the last. Returns the nonce of this chunk, and counts. */
function chunkNonce(counter: Buffer, isLast: boolean): Buffer {
  const nonce = Buffer.from(counter);
  nonce[11] = isLast ? 1 : 0;
  for (let at = 10; at >= 0; at -= 1) {
    counter[at] = ((counter[at] ?? 0) + 1) & 0xff;
    if (counter[at] !== 0) break;
  }
  return nonce;
}

function payloadKey(fileKey: Uint8Array, nonce: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', fileKey, nonce, 'payload', KEY_BYTES));
}

/** The size of this many bytes in sealed chunks. */
function sealedBytes(bytes: number): number {
  return bytes + Math.max(1, Math.ceil(bytes / CHUNK_BYTES)) * TAG_BYTES;
}

/** One past the header's last byte: its last line is `--- <mac>`. */
function headerEnd(bytes: Buffer): number | undefined {
  const last = bytes.indexOf('\n--- ');
  const end = last === -1 ? -1 : bytes.indexOf('\n', last + 1);
  return end === -1 ? undefined : end + 1;
}
