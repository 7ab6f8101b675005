import { expect, it } from 'vitest';
import { openPartBuffers, gather, partSizeBytes } from '../../src/read/parts.ts';

const MiB = 2 ** 20;

it.each([
  [0, 8 * MiB],
  [64 * 1024 * MiB, 8 * MiB],
  [72_000 * MiB, 8 * MiB],
  [72_000 * MiB + 1, 9 * MiB],
  [5 * 1024 ** 2 * MiB, 583 * MiB],
])('cuts a file of %i bytes into parts of %i, so that 10,000 are enough', (sizeBytes, partBytes) => {
  expect(partSizeBytes(sizeBytes)).toBe(partBytes);
  expect(sizeBytes / partBytes).toBeLessThanOrEqual(9000);
});

it.each([
  ['nothing', [], []],
  ['less than a part', [3], [3]],
  ['one part', [4, 4], [8]],
  ['one byte more', [4, 5], [8, 1]],
  ['pieces larger than parts', [20], [8, 8, 4]],
  ['two parts in small pieces', [5, 5, 5, 1], [8, 8]],
])('gathers %s', async (_, pieceSizes, partSizes) => {
  const bytes = Buffer.from(Array.from({ length: 32 }, (_, n) => n));
  let at = 0;
  const pieces = (async function* () {
    for (const size of pieceSizes) yield bytes.subarray(at, (at += size));
  })();
  const parts = gather(pieces, 8, openPartBuffers());
  const out: Uint8Array[] = [];
  for (let step = await parts.next(); ; step = await parts.next()) {
    out.push(step.value);
    if (step.done === true) break;
  }
  expect(out.map((part) => part.length)).toEqual(partSizes.length === 0 ? [0] : partSizes);
  expect(Buffer.concat(out).equals(bytes.subarray(0, at))).toBe(true);
});

it('does not give out the last part before its bytes are all there', async () => {
  let isOver = false;
  const pieces = (async function* () {
    yield Buffer.alloc(8);
    isOver = true;
  })();
  const step = await gather(pieces, 8, openPartBuffers()).next();
  expect(step.done).toBe(true);
  expect(isOver).toBe(true);
});
