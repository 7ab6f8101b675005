// md5 as RFC 1321 has it, for where OpenSSL refuses it: at half the speed, and the same sum.

const BLOCK_BYTES = 64;
/** Where the length of the message stands in the last block. */
const LENGTH_AT = 56;
/** RFC 1321, 3.4: table T. */
const SINES = Int32Array.from({ length: 64 }, (_, n) => Math.floor(Math.abs(Math.sin(n + 1)) * 2 ** 32));
/** By how much each step of a round rotates. */
const ROTATIONS = [
  [7, 12, 17, 22],
  [5, 9, 14, 20],
  [4, 11, 16, 23],
  [6, 10, 15, 21],
].flatMap((round) => [...round, ...round, ...round, ...round]);
const ROTATION = Int32Array.from(ROTATIONS);
/** Which word of the block each step takes. */
const WORD = Int32Array.from({ length: 64 }, (_, n) => {
  const [factor, start] = [
    [1, 0],
    [5, 1],
    [3, 5],
    [7, 0],
  ][n >> 4] ?? [1, 0];
  return (factor! * n + start!) % 16;
});

export class PlainMd5 {
  readonly #state = Int32Array.of(0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476);
  readonly #words = new Int32Array(16);
  readonly #tail = new Uint8Array(BLOCK_BYTES);
  #lengthBytes = 0;

  update(bytes: Uint8Array): void {
    let at = 0;
    const waiting = this.#lengthBytes % BLOCK_BYTES;
    this.#lengthBytes += bytes.length;
    if (waiting > 0) {
      at = Math.min(BLOCK_BYTES - waiting, bytes.length);
      this.#tail.set(bytes.subarray(0, at), waiting);
      if (waiting + at < BLOCK_BYTES) return;
      this.#block(this.#tail, 0);
    }
    for (; at + BLOCK_BYTES <= bytes.length; at += BLOCK_BYTES) this.#block(bytes, at);
    this.#tail.set(bytes.subarray(at));
  }

  digest(): string {
    const lengthBytes = this.#lengthBytes;
    const waiting = lengthBytes % BLOCK_BYTES;
    const padding = new Uint8Array((waiting < LENGTH_AT ? BLOCK_BYTES : 2 * BLOCK_BYTES) - waiting);
    padding[0] = 0x80;
    const end = new DataView(padding.buffer, padding.length - 8);
    end.setUint32(0, (lengthBytes * 8) % 2 ** 32, true);
    end.setUint32(4, Math.floor((lengthBytes * 8) / 2 ** 32), true);
    this.update(padding);
    const digest = new DataView(new ArrayBuffer(16));
    for (const [n, word] of this.#state.entries()) digest.setInt32(4 * n, word, true);
    return Buffer.from(digest.buffer).toString('hex');
  }

  #block(bytes: Uint8Array, at: number): void {
    const [state, words] = [this.#state, this.#words];
    for (let n = 0; n < 16; n += 1) {
      const from = at + 4 * n;
      words[n] = bytes[from]! | (bytes[from + 1]! << 8) | (bytes[from + 2]! << 16) | (bytes[from + 3]! << 24);
    }
    let a = state[0]!;
    let b = state[1]!;
    let c = state[2]!;
    let d = state[3]!;
    for (let step = 0; step < 64; step += 4) {
      a = (turned((a + mixed(step, b, c, d) + words[WORD[step]!]! + SINES[step]!) | 0, step) + b) | 0;
      d =
        (turned((d + mixed(step, a, b, c) + words[WORD[step + 1]!]! + SINES[step + 1]!) | 0, step + 1) + a) |
        0;
      c =
        (turned((c + mixed(step, d, a, b) + words[WORD[step + 2]!]! + SINES[step + 2]!) | 0, step + 2) + d) |
        0;
      b =
        (turned((b + mixed(step, c, d, a) + words[WORD[step + 3]!]! + SINES[step + 3]!) | 0, step + 3) + c) |
        0;
    }
    state[0] = (state[0]! + a) | 0;
    state[1] = (state[1]! + b) | 0;
    state[2] = (state[2]! + c) | 0;
    state[3] = (state[3]! + d) | 0;
  }
}

function mixed(step: number, x: number, y: number, z: number): number {
  if (step < 16) return (x & y) | (~x & z);
  if (step < 32) return (x & z) | (y & ~z);
  return step < 48 ? x ^ y ^ z : y ^ (x | ~z);
}

function turned(sum: number, step: number): number {
  const by = ROTATION[step]!;
  return (sum << by) | (sum >>> (32 - by));
}
