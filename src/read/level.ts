// Tries the levels of --compression zstd:auto on the start of a large file. This takes the worker about 10 ms, and the
// sending thread nothing.
import {
  bestLevel,
  HIGHER_LEVELS,
  LEAST_LEVEL,
  type MeasuredLevel,
  isLinkBound,
} from '../model/compression-level.ts';

/** Compresses the sample, and returns the compressed size. */
type Compress = (level: number) => Promise<number>;

/** The level that gets a file with this beginning over this link soonest. */
export async function chooseLevel(
  sampleBytes: number,
  linkBytesPerS: number,
  compress: Compress,
): Promise<number> {
  const least = await tryLevel(LEAST_LEVEL, sampleBytes, compress);
  if (!isLinkBound(least, linkBytesPerS)) return least.level;
  const others: MeasuredLevel[] = [];
  // oxlint-disable-next-line no-await-in-loop -- one at a time: else none would have a core of its own
  for (const level of HIGHER_LEVELS) others.push(await tryLevel(level, sampleBytes, compress));
  return bestLevel(least, others, linkBytesPerS).level;
}

/** By wall clock: before Node 23.9 a thread's CPU time is not available. */
async function tryLevel(level: number, sampleBytes: number, compress: Compress): Promise<MeasuredLevel> {
  const startMs = performance.now();
  const sizeBytes = await compress(level);
  const tookMs = performance.now() - startMs;
  return { level, bytesPerS: (sampleBytes / tookMs) * 1000, ratio: sizeBytes / sampleBytes };
}
