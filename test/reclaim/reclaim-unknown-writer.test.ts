// A file system that cannot name writers is none that a test can make: here the probe is told what to say.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openReclaimer } from '../../src/reclaim/reclaim.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

vi.mock('../../src/native/files.ts', async (original) => ({
  ...(await original()),
  writerState: () => 'unknown',
}));

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

test('a file whose writers nobody can name stays until the end', async () => {
  const reclaimer = openReclaimer(dir);
  dir.write('r.dat', 'bytes');
  const pushed = dir.facts('r.dat');
  expect(await reclaimer.reclaim('r.dat', pushed, { atEnd: false })).toEqual({ kind: 'unknown-writer' });
  expect(dir.read('r.dat')).toBe('bytes');
  expect(await reclaimer.reclaim('r.dat', pushed, { atEnd: true })).toEqual({ kind: 'reclaimed' });
  await reclaimer.close();
});
