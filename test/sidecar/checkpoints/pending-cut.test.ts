// A set whose files are being sent: which of them are looked at when one of them is stored.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { FileFacts } from '../../../src/model/file/file-state.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { type CutParts, PendingCut } from '../../../src/sidecar/checkpoints/pending-cut.ts';
import type { TakenCut } from '../../../src/sidecar/checkpoints/cutting.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

const FILES = 500;
let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => {
  vi.restoreAllMocks();
  dir.remove();
});

it('with very many files is not looked through for each of them, and whole with the last one', () => {
  const paths = Array.from({ length: FILES }, (_, n) => `f${n}.chk`);
  for (const path of paths) dir.write(path, path);
  const states = new Map<string, FileFacts>(paths.map((path) => [path, dir.facts(path)]));
  const stored = new Set<string>();
  const pushing = new Set(paths.slice(0, 32));
  // Each look at a file takes a millisecond.
  let nowMs = 0;
  let looks = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const parts = {
    context: { root: dir },
    checkpoints: {
      objectOf: (path: string) => (stored.has(path) ? ({ path } as StoredFile) : undefined),
      held: {
        isWhole: () => {
          looks += 1;
          nowMs += 1;
          return true;
        },
        hold: () => undefined,
        release: () => undefined,
        releaseAll: () => undefined,
      },
      sendsOther: () => false,
    },
    files: {
      get: (path: string) => ({ pushing: pushing.has(path), closes: 1 }),
      want: () => true,
      drop: () => undefined,
      setFirst: () => undefined,
    },
    companions: { areDue: false },
  };
  const taken = { states } as unknown as TakenCut;
  const cut = new PendingCut(parts as unknown as CutParts, taken, 1);
  cut.begin(
    () => new Set(paths),
    () => undefined,
  );
  expect(cut.progress().kind).toBe('waiting');
  for (const [at, path] of paths.entries()) {
    pushing.delete(path);
    const next = paths[at + 32];
    if (next !== undefined) pushing.add(next);
    stored.add(path);
    nowMs += 1;
    expect(cut.progress(path).kind).toBe(at === FILES - 1 ? 'whole' : 'waiting');
  }
  expect(looks).toBeLessThan(3 * FILES);
});
