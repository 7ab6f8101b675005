// The task of bench/checkpoint.mjs: rewrites k.chk in place, never truncated, 1.2 s each, one every 3 s.
// Usage: node rewrite-in-place.mjs <MiB> <times>. Says each close: version, and how many names the file still has.
import fs from 'node:fs';
import { pathToFileURL } from 'node:url';
import { setTimeout as pause } from 'node:timers/promises';

export const EVERY_MS = 3000;
const WRITE_MS = 1200;
const PIECES = 16;
const MiB = 2 ** 20;

/** Float64 blocks of limited precision, as a simulation writes them; no two versions are alike. */
export function* content(version, sizeMiB) {
  pool ??= Array.from({ length: 16 }, (_, n) => floats(n));
  for (let n = 0; n < sizeMiB; n += 1) {
    const block = Buffer.from(pool[(n * 7 + version * 5) % pool.length]);
    block.writeDoubleLE(version * 1e6 + n);
    yield block;
  }
}

let pool;

function floats(seed) {
  let state = seed + 1;
  const values = Float64Array.from({ length: MiB / 8 }, (_, i) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.fround(1000 * Math.sin((seed * 131_072 + i) / 997)) + (state >>> 12) / 2 ** 24;
  });
  return Buffer.from(values.buffer);
}

async function rewrite(sizeMiB, times) {
  const startMs = performance.now();
  const until = (ms) => pause(Math.max(0, startMs + ms - performance.now()));
  for (let version = 1; version <= times; version += 1) {
    const beginMs = (version - 1) * EVERY_MS;
    await until(beginMs);
    const fd = fs.openSync('k.chk', fs.constants.O_WRONLY | fs.constants.O_CREAT, 0o644);
    let written = 0;
    for (const block of content(version, sizeMiB)) {
      fs.writeSync(fd, block);
      written += 1;
      if (written % Math.ceil(sizeMiB / PIECES) === 0) await until(beginMs + (WRITE_MS * written) / sizeMiB);
    }
    const { nlink } = fs.fstatSync(fd);
    fs.closeSync(fd);
    fs.writeSync(1, `${version} ${nlink}\n`);
  }
  await until(times * EVERY_MS);
}

const [, main = '', sizeMiB, times] = process.argv;
if (pathToFileURL(main).href === import.meta.url) await rewrite(Number(sizeMiB), Number(times));
