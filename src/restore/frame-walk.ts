// Finds the end of one zstd frame without decoding it: RFC 8878, section 3.1.1.

export interface FrameWalk {
  /** How many of these bytes belong to the frame. Throws when this is no frame. */
  feed(bytes: Uint8Array): number;
  isAtEnd(): boolean;
}

/** The next bytes of the frame: to be looked at, or passed over. */
interface Field {
  readonly lengthBytes: number;
  readonly isRead: boolean;
}

const MAGIC = 0xfd2fb528;
/** The lowest of 16: pzstd and the seekable format put frames between the others that decode to nothing. */
const SKIPPABLE_MAGIC = 0x184d2a50;
const RLE_BLOCK = 1;

export function openFrameWalk(): FrameWalk {
  const fields = frame();
  let field = fields.next();
  let value = 0n;
  let at = 0;
  return {
    isAtEnd: () => field.done === true,
    feed: (bytes) => {
      let used = 0;
      while (field.done !== true && used < bytes.length) {
        const { lengthBytes, isRead } = field.value;
        const taken = Math.min(lengthBytes - at, bytes.length - used);
        if (isRead) {
          for (const byte of bytes.subarray(used, used + taken)) {
            value |= BigInt(byte) << BigInt(8 * at);
            at += 1;
          }
        } else at += taken;
        used += taken;
        if (at < lengthBytes) break;
        field = fields.next(Number(value));
        value = 0n;
        at = 0;
      }
      return used;
    },
  };
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
