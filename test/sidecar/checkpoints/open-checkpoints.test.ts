// Checkpoints that the task never closes are named. The time is the test's.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OpenCheckpoints } from '../../../src/sidecar/checkpoints/open-checkpoints.ts';
import type { Context } from '../../../src/sidecar/run/context.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

describe('a checkpoint that stays open', () => {
  let dir: TestDir;
  let nowMs = 0;
  let said: string[] = [];
  let committed = 0;
  let open: string[] = [];
  let stored: readonly string[] = [];
  let companions: readonly string[] = [];
  let watch: OpenCheckpoints;

  beforeEach(() => {
    dir = testDir();
    nowMs = 0;
    said = [];
    committed = 0;
    open = ['k'];
    stored = [];
    companions = [];
    const context = {
      root: dir,
      manifest: { rolesOf: (path: string) => ({ companion: companions.includes(path) }) },
      settings: { manifest: { checkpoints: ['k'] } },
      log: { warn: (text: string) => said.push(text) },
      now: () => nowMs,
    };
    watch = new OpenCheckpoints({
      context: context as unknown as Context,
      unsaved: { look: () => open.map((path) => ({ path, open: true })) },
      files: { get: (path) => (stored.includes(path) ? ({ durable: {} } as never) : undefined) },
      committed: () => committed,
    });
  });
  afterEach(() => dir.remove());

  /** Writes `bytes` more, or in place, and looks, every 5 s. */
  function passes(seconds: number, bytes = 0): void {
    for (let s = 0; s <= seconds; s += 5) {
      for (const path of open) {
        if (bytes > 0) fs.appendFileSync(`${dir.path}/${path}`, Buffer.alloc(bytes));
        else dir.write(path, 'state');
      }
      watch.look();
      nowMs += 5000;
    }
  }

  it('is named once when it is written to for half a minute', () => {
    passes(25);
    expect(said).toEqual([]);
    passes(300);
    expect(said).toEqual(['k: open for 30.0 s and written to, but never closed. Nothing of it is stored']);
  });

  it('is named after ten seconds when sets are committed without it', () => {
    passes(0);
    committed = 1;
    passes(5);
    expect(said).toEqual([expect.stringContaining('the checkpoints that are safe do not hold it')]);
  });

  it.each<[string, () => void]>([
    ['has been stored', () => (stored = ['k'])],
    ['is a companion', () => (companions = ['k'])],
  ])('is not named if it %s', (_, set) => {
    set();
    passes(300);
    expect(said).toEqual([]);
  });

  it('is not named if nothing is written to it', () => {
    dir.write('k', 'state');
    for (let s = 0; s < 300; s += 5, nowMs += 5000) watch.look();
    expect(said).toEqual([]);
  });

  it('is named only after minutes when it grows fast, like a large file that is written for the first time', () => {
    passes(200, 2 ** 20);
    expect(said).toEqual([]);
    passes(200, 2 ** 20);
    expect(said).toHaveLength(1);
  });

  it('is named in one line with others like it', () => {
    open = ['a', 'b', 'c', 'd', 'e'];
    passes(60);
    expect(said).toEqual([expect.stringMatching(/^a, b, c, and 2 more: open for/)]);
  });
});
