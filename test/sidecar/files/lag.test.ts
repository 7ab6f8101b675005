import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { decide, type TrackEvent } from '../../../src/core/decide.ts';
import { newTrack, type Track } from '../../../src/core/track.ts';
import type { Log } from '../../../src/log.ts';
import { Lag } from '../../../src/sidecar/files/lag.ts';

const durable = {
  fingerprint: { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1' },
  md5: 'x',
  size: 1,
};
const stored: TrackEvent = { kind: 'stored', durable, atMs: 0, tookMs: 0 };

let said: string[] = [];
let lag: Lag;
let track: Track;
const log: Log = {
  debug: () => undefined,
  info: (message) => void said.push(message),
  warn: () => undefined,
  error: () => undefined,
  close: async () => undefined,
};
/** All the time there is is the test's. */
beforeEach(() => {
  vi.useFakeTimers();
  said = [];
  lag = new Lag(log, Date.now);
  track = newTrack('r.dat', 'result', false);
});
afterEach(() => {
  lag.close();
  vi.useRealTimers();
});

function happen(...events: readonly TrackEvent[]): void {
  for (const event of events) {
    track = decide(track, event);
    lag.changed(track);
  }
}
const close = (): void => happen({ kind: 'closed', how: 'close', atMs: Date.now() });

describe('the lag', () => {
  it('is said when closed content is not durable after ten seconds, and when it has caught up', () => {
    close();
    happen({ kind: 'push-started' });
    vi.advanceTimersByTime(9900);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(2000);
    expect(said).toEqual([
      expect.stringMatching(/^behind by 1\d\.\d s: 1 closed file not stored yet, the oldest is r\.dat$/),
    ]);
    happen(stored);
    expect(said.at(-1)).toBe('no longer behind');
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is said again each time that it has doubled, not every second', () => {
    close();
    vi.advanceTimersByTime(100_000);
    expect(said.length).toBeGreaterThan(1);
    expect(said.length).toBeLessThan(6);
  });

  it('has no timer while nothing waits', () => {
    close();
    happen({ kind: 'push-started' }, stored);
    expect(vi.getTimerCount()).toBe(0);
    expect(said).toEqual([]);
  });

  it('counts from the close that came while the older content was sent', () => {
    close();
    happen({ kind: 'push-started' });
    vi.advanceTimersByTime(8000);
    close();
    happen(stored);
    vi.advanceTimersByTime(8000);
    expect(said).toEqual([]);
  });

  it('says nothing of a file that somebody writes again', () => {
    close();
    happen({ kind: 'push-started' }, { kind: 'has-writer' });
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual([]);
  });
});
