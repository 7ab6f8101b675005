// Which results could be reclaimed: `LocalCopies` of results.ts, by itself.
import { describe, expect, it } from 'vitest';
import { LocalCopies } from '../../../src/sidecar/queue/local-copies.ts';

const copy = (size: number, closes = 1) => ({
  fingerprint: { dev: '1', ino: '2', size, mtimeNs: '3', ctimeNs: '4' },
  closes,
  isOurs: true,
});

describe('local copies', () => {
  it('are counted as they appear, reappear and disappear', () => {
    const copies = new LocalCopies();
    copies.note('a', copy(10));
    copies.note('b', copy(20));
    expect([copies.bytes, copies.once]).toEqual([30, { files: 2, bytes: 30 }]);
    copies.note('b', copy(25, 2));
    expect([copies.bytes, copies.once]).toEqual([35, { files: 1, bytes: 10 }]);
    copies.forget('a');
    copies.forget('a');
    expect([copies.bytes, copies.once]).toEqual([25, { files: 0, bytes: 0 }]);
    expect([...copies]).toEqual([['b', copy(25, 2)]]);
  });

  it('keep the state in which they were pushed, not a later one', () => {
    const copies = new LocalCopies();
    copies.note('a', { ...copy(10), isOurs: false });
    expect([...copies]).toEqual([['a', { ...copy(10), isOurs: false }]]);
  });
});
