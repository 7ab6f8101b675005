// Tries the levels of --compression zstd:auto on the start of a large file: some 10 ms of the worker, and none of the
// thread that sends.
import {
  bestLevel,
  HIGHER_LEVELS,
  LEAST_LEVEL,
  type TriedLevel,
  waitsForLink,
} from '../model/compression-level.ts';

/** Compresses the sample, and returns the size of what that makes. */
type Compress = (level: number) => Promise<number>;

/** The level that brings a file that begins with the sample over this link soonest. */
export async function chooseLevel(
  sampleBytes: number,
  linkBytesPerS: number,
  compress: Compress,
): Promise<number> {
  const least = await tryLevel(LEAST_LEVEL, sampleBytes, compress);
  if (!waitsForLink(least, linkBytesPerS)) return least.level;
  const others: TriedLevel[] = [];
  // oxlint-disable-next-line no-await-in-loop -- one at a time: else none would have a core of its own
  for (const level of HIGHER_LEVELS) others.push(await tryLevel(level, sampleBytes, compress));
  return bestLevel(least, others, linkBytesPerS).level;
}

/** By the clock: no CPU time of one thread is known before Node 23.9. */
async function tryLevel(level: number, sampleBytes: number, compress: Compress): Promise<TriedLevel> {
  const startMs = performance.now();
  const sizeBytes = await compress(level);
  const tookMs = performance.now() - startMs;
  return { level, bytesPerS: (sampleBytes / tookMs) * 1000, ratio: sizeBytes / sampleBytes };
}
