// Walks over the whole tree, one at a time.
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { openPasses, type PassKind } from '../../src/watch/passes.ts';

describe('passes', () => {
  it('run one at a time, and once more for all requests that came meanwhile', async () => {
    const runs: PassKind[] = [];
    let under = 0;
    const passes = openPasses(async (kind) => {
      under += 1;
      expect(under).toBe(1);
      runs.push(kind);
      if (runs.length === 1) for (let n = 0; n < 5; n += 1) passes.request('all');
      await Promise.resolve();
      under -= 1;
    });
    passes.request('all');
    await pause(0);
    expect(runs).toEqual(['all', 'all']);
    await passes.close();
  });

  it('stop at close, in the middle of one and between two', async () => {
    let runs = 0;
    const passes = openPasses(async (_kind, signal) => {
      runs += 1;
      await pause(3_600_000, undefined, { signal });
    });
    passes.repeat(3_600_000);
    passes.request('all');
    await pause(0);
    await passes.close();
    passes.request('all');
    await passes.close();
    expect(runs).toBe(1);
  });
});
