// Finds the end of one zstd frame without decoding it (RFC 8878, section 3.1.1), for a decompressor that does not say
// where it ended.

/** The next bytes of the frame: to be looked at, or passed over. */
interface Field {
  readonly lengthBytes: number;
  readonly isRead: boolean;
}

const MAGIC = 0xfd2fb528;
/** The lowest of 16: pzstd and the seekable format put frames between the others that decode to nothing. */
const SKIPPABLE_MAGIC = 0x184d2a50;
const RLE_BLOCK = 1;

export class FrameWalk {
  readonly #fields = frame();
  #field = this.#fields.next();
  #value = 0n;
  /** Bytes of the field that are taken already. */
  #at = 0;

  get isAtEnd(): boolean {
    return this.#field.done === true;
  }

  /** How many of these bytes belong to the frame. Throws when this is no frame. */
  feed(bytes: Uint8Array): number {
    let used = 0;
    while (this.#field.done !== true && used < bytes.length) {
      const { lengthBytes, isRead } = this.#field.value;
      const taken = Math.min(lengthBytes - this.#at, bytes.length - used);
      if (isRead) {
        for (const byte of bytes.subarray(used, used + taken)) {
          this.#value |= BigInt(byte) << BigInt(8 * this.#at);
          this.#at += 1;
        }
      } else this.#at += taken;
      used += taken;
      if (this.#at < lengthBytes) break;
      this.#field = this.#fields.next(Number(this.#value));
      this.#value = 0n;
      this.#at = 0;
    }
    return used;
  }
}

/** The fields of a frame in their order; numbers are little-endian. */
function* frame(): Generator<Field, void, number> {
  const magic = yield read(4);
  if (magic - (magic % 16) === SKIPPABLE_MAGIC) return yield* skip(yield read(4));
  if (magic !== MAGIC) throw new Error('the zstd frame is corrupt: it does not begin as one');
  const descriptor = yield read(1);
  const isSingleSegment = (descriptor & 0x20) !== 0;
  const dictionaryBytes = [0, 1, 2, 4][descriptor & 3] ?? 0;
  const contentSizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][descriptor >> 6] ?? 0;
  yield* skip((isSingleSegment ? 0 : 1) + dictionaryBytes + contentSizeBytes);
  for (let isLast = false; !isLast;) {
    const header = yield read(3);
    isLast = (header & 1) !== 0;
    yield* skip(((header >> 1) & 3) === RLE_BLOCK ? 1 : header >> 3);
  }
  yield* skip((descriptor & 4) !== 0 ? 4 : 0);
}

function read(lengthBytes: number): Field {
  return { lengthBytes, isRead: true };
}

function* skip(lengthBytes: number): Generator<Field, void, number> {
  if (lengthBytes > 0) yield { lengthBytes, isRead: false };
}
