// What the tasks of the bench write: the same bytes for the same kind and seed, so that each stored object can be told
// from every other state of its file.
import { createCipheriv, createHash } from 'node:crypto';

export const MiB = 2 ** 20;
const POOL_BLOCKS = 16;
const BLOCK_MAKERS = { float64: floats, text: lines, random: noise };
const pools = new Map();

/** The kinds of content. */
export const KINDS = Object.keys(BLOCK_MAKERS);

/** The bytes of one state of a file, in blocks of at most 1 MiB. A block is valid until the next one is asked for. */
export function* blocks({ kind, seed, sizeBytes }) {
  const pool = poolOf(kind);
  for (let done = 0, n = 0; done < sizeBytes; done += MiB, n += 1) {
    const block = pool[(n * 7 + seed * 5) % POOL_BLOCKS];
    // A number of its own makes each block of each state another one.
    block.writeDoubleLE(seed * 1e6 + n + 1);
    yield block.subarray(0, Math.min(MiB, sizeBytes - done));
  }
}

export function md5Of(state) {
  const hash = createHash('md5');
  for (const block of blocks(state)) hash.update(block);
  return hash.digest('hex');
}

function poolOf(kind) {
  if (!pools.has(kind))
    pools.set(
      kind,
      Array.from({ length: POOL_BLOCKS }, (_, seed) => BLOCK_MAKERS[kind](seed)),
    );
  return pools.get(kind);
}

/** Values of limited precision, as a simulation writes them. */
function floats(seed) {
  let state = seed + 1;
  const values = Float64Array.from({ length: MiB / 8 }, (_, i) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.fround(1000 * Math.sin((seed * 131_072 + i) / 997)) + (state >>> 12) / 2 ** 24;
  });
  return Buffer.from(values.buffer);
}

/** Lines of a log. */
function lines(seed) {
  const text = [];
  for (let i = 0, bytes = 0; bytes < MiB; i += 1) {
    const step = seed * 20_000 + i;
    const line = `step ${step} energy ${(Math.sin(step) * 1e3).toFixed(6)} temp ${(300 + Math.cos(step / 9)).toFixed(3)}\n`;
    text.push(line);
    bytes += line.length;
  }
  return Buffer.from(text.join('')).subarray(0, MiB);
}

/** Nothing that a compressor could make smaller. */
function noise(seed) {
  const key = Buffer.alloc(16, seed + 1);
  return createCipheriv('aes-128-ctr', key, Buffer.alloc(16)).update(Buffer.alloc(MiB));
}
