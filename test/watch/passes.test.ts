// Walks over the whole tree, one at a time, of which each tells only what is new.
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LastSeen, Passes, type PassKind } from '../../src/watch/passes.ts';

describe('passes', () => {
  it('run one at a time, and once more for all requests that arrived meanwhile', async () => {
    const runs: PassKind[] = [];
    let under = 0;
    const passes = new Passes(async (kind) => {
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

  it('stop when closed, in the middle of a pass and between two', async () => {
    let runs = 0;
    const passes = new Passes(async (_kind, signal) => {
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

describe('last seen', () => {
  const facts = { dev: '1', ino: '2', size: 3, mtimeNs: '4', ctimeNs: '5' };

  it.each(['dev', 'ino', 'size', 'mtimeNs', 'ctimeNs'])(
    'recognises a file as new when its %s differs',
    (field) => {
      const seen = new LastSeen();
      seen.note('r.dat', facts);
      expect(seen.isNew('r.dat', facts)).toBe(false);
      expect(seen.isNew('r.dat', { ...facts, [field]: field === 'size' ? 9 : '9' })).toBe(true);
    },
  );

  it('forgets a file that a complete walk has not found', () => {
    const seen = new LastSeen();
    seen.note('r.dat', facts);
    seen.forgetGone();
    expect(seen.isNew('r.dat', facts)).toBe(false);
    seen.forgetGone();
    seen.forgetGone();
    expect(seen.isNew('r.dat', facts)).toBe(true);
  });
});
