import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Compressor } from '../../src/read/compressor.ts';
import { openPartBuffers } from '../../src/read/part-buffers.ts';
import { readFile, type Bench, type Outlet } from '../../src/read/read-file.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { compressible, MiB, ZSTD } from './read-all.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
  dir.write('k.chk', compressible(40 * MiB));
});
afterEach(() => dir.remove());

it('ends the compressor of a body that is given up in the middle', async () => {
  let isAtWork = false;
  const compressor: Compressor = {
    name: 'zstd-napi',
    once: () => new Uint8Array(1),
    stream: async function* (source) {
      isAtWork = true;
      try {
        yield* source;
      } finally {
        isAtWork = false;
      }
    },
  };
  const buffer = new Uint8Array(MiB);
  const shared = { root: dir, spool: undefined, buffers: openPartBuffers(), buffer, compressor };
  const bench: Bench = { ...shared };
  const seen: boolean[] = [];
  const outlet: Outlet = {
    begin: () => undefined,
    ready: () => Promise.resolve(),
    part: () => {
      seen.push(isAtWork);
      return Promise.reject(new Error('given up'));
    },
  };
  const job = { path: 'k.chk', compression: ZSTD, spoolFirst: false };
  const request = { work: { kind: 'read', job }, smallOnly: false, seen: undefined } as const;
  await expect(readFile(bench, request, outlet, new AbortController().signal)).rejects.toThrow('given up');
  expect(seen).toEqual([true]);
  expect(isAtWork).toBe(false);
});
