// The minute is the test's: no clock runs.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import {
  minuteLine,
  openMinuteLine,
  type MinuteLine,
  type SoFar,
} from '../../../src/sidecar/disk/minute-line.ts';

const NOTHING: SoFar = { checkpoints: 0, newestAgeMs: 0, results: 0, bytes: 0, lag: undefined };

let said: { readonly text: string; readonly fields: object | undefined }[] = [];
let now: SoFar = NOTHING;
let line: MinuteLine;
beforeEach(() => {
  vi.useFakeTimers();
  said = [];
  now = NOTHING;
  const log = { info: (text: string, fields?: object) => void said.push({ text, fields }) } as unknown as Log;
  line = openMinuteLine(log, () => now);
});
afterEach(() => {
  line.close();
  vi.useRealTimers();
});

describe('the minute line', () => {
  it('says what is stored, how old the newest checkpoint is, and by how much capture is behind', () => {
    const lag = { ms: 300, files: 1, path: 'r.dat' };
    expect(minuteLine({ checkpoints: 12, newestAgeMs: 8400, results: 340, bytes: 2.1 * 2 ** 30, lag })).toBe(
      '12 checkpoints safe, newest 8 s old; 340 results stored, 2.1 GiB; behind by 300 ms',
    );
  });

  it('names what waits when it has waited for long', () => {
    const lag = { ms: 14_000, files: 3, path: 'r.dat' };
    expect(minuteLine({ ...NOTHING, lag })).toBe(
      'behind by 14.0 s: 3 closed files not stored yet, the oldest is r.dat',
    );
  });

  it('comes at most once a minute, however much happens', () => {
    for (let tick = 0; tick < 300; tick += 1) {
      now = { ...now, results: tick };
      line.changed();
      vi.advanceTimersByTime(1000);
    }
    expect(said.map(({ text }) => text)).toEqual(
      [59, 119, 179, 239, 299].map((count) => `${count} results stored, 0 B`),
    );
    expect(said[0]?.fields).toEqual({
      event: 'summary',
      checkpoints: 0,
      newestAgeMs: 0,
      results: 59,
      bytes: 0,
      lagMs: 0,
      waiting: 0,
    });
  });

  it('has no timer, and says nothing, while nothing happens', () => {
    expect(vi.getTimerCount()).toBe(0);
    now = { ...now, results: 1 };
    line.changed();
    vi.advanceTimersByTime(60_000);
    expect(said).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(3_600_000);
    expect(said).toHaveLength(1);
  });

  it('is not said when there is nothing to say, nor after the end', () => {
    line.changed();
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual([]);
    line.changed();
    line.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('comes again while something waits, though nothing else happens', () => {
    now = { ...NOTHING, lag: { ms: 60_000, files: 1, path: 'r.dat' } };
    line.changed();
    vi.advanceTimersByTime(180_000);
    expect(said).toHaveLength(3);
  });
});
