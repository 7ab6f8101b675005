// Bytes of others on a terminal: what a task wrote, or one of its files. Lines and tabs stay what they are; all else that is no
// text is shown (path.ts), as is a byte that is no UTF-8. Pure.
import { decodePath, showLines } from './path.ts';

const NONE = Buffer.alloc(0);
const [CARRIAGE_RETURN, FIRST_OF_SEVERAL, CONTINUES] = [0x0d, 0xc0, 0x80];
/** Bytes of the longest character in UTF-8, but for the last. */
const MOST_BEFORE = 3;

/** Pieces of one stream, one after the other. */
export class ShownBytes {
  /** The beginning of a character, or of the end of a line, whose rest comes with the next piece. */
  #held: Buffer = NONE;

  add(piece: Uint8Array): string {
    const bytes = Buffer.concat([this.#held, piece]);
    const whole = bytes.length - unfinished(bytes);
    this.#held = bytes.subarray(whole);
    return showLines(decodePath(bytes.subarray(0, whole)));
  }

  /** What is left: nothing follows. */
  end(): string {
    const rest = this.#held;
    this.#held = NONE;
    return showLines(decodePath(rest));
  }
}

/** How many bytes at the end may be the beginning of something longer. */
function unfinished(bytes: Buffer): number {
  if (bytes.at(-1) === CARRIAGE_RETURN) return 1;
  for (let count = 1; count <= Math.min(MOST_BEFORE, bytes.length); count += 1) {
    const byte = bytes.at(-count) ?? 0;
    if (byte >= FIRST_OF_SEVERAL) return count < lengthOf(byte) ? count : 0;
    if (byte < CONTINUES) return 0;
  }
  return 0;
}

/** Of the character in UTF-8 that begins so (RFC 3629, section 3). */
function lengthOf(first: number): number {
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}
