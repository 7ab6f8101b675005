import { beforeEach, describe, expect, it } from 'vitest';
import type { StoredFile } from '../../src/model/format/records.ts';
import { Baselines } from '../../src/records/ledger.ts';

const results = new Map<string, StoredFile>();
let baselines: Baselines;
beforeEach(() => {
  results.clear();
  results.set('r', { path: 'r', md5: 'stored', size: 1 } as StoredFile);
  baselines = new Baselines({ results });
});

describe('a baseline', () => {
  it('is what is stored, and with the next push what that stored', () => {
    expect(baselines.get('r')).toMatchObject({ md5: 'stored', size: 1 });
    results.set('r', { path: 'r', md5: 'newer', size: 2 } as StoredFile);
    expect(baselines.get('r')).toMatchObject({ md5: 'newer', size: 2 });
  });

  it('is the input that was staged, until the path is stored', () => {
    baselines.set('r', { md5: 'staged', size: 3 });
    expect(baselines.get('r')?.md5).toBe('staged');
    baselines.stored('r');
    expect(baselines.get('r')?.md5).toBe('stored');
  });

  it('is none when what stands in the store was replaced, until it is stored again', () => {
    baselines.delete('r');
    expect(baselines.get('r')).toBeUndefined();
    expect([...baselines.inputs(() => true)]).toEqual([]);
    baselines.stored('r');
    expect(baselines.get('r')?.md5).toBe('stored');
  });

  it('of an input is handed on, of a mere result it is not', () => {
    results.set('both', { path: 'both', md5: 'x', size: 4 } as StoredFile);
    baselines.set('staged', { md5: 'y', size: 5 });
    expect([...baselines.inputs((path) => path === 'both')]).toEqual([
      ['staged', { md5: 'y', size: 5 }],
      ['both', { md5: 'x', size: 4 }],
    ]);
  });
});
