// What a run says of itself: the lag and the minute line. The time is the test's: no clock runs.
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { decide, type FileEvent } from '../../../src/model/file/decide.ts';
import { type FileState, newFileState } from '../../../src/model/file/file-state.ts';
import { Paths } from '../../../src/model/packed/packed-map.ts';
import { testDir } from '../../support/work-dir.ts';
import { Gauges, Lag, minuteLine, type SoFar } from '../../../src/sidecar/disk/gauges.ts';

describe('the lag', () => {
  const durable = {
    fingerprint: { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1' },
    md5: 'x',
    size: 1,
  };
  const stored: FileEvent = { kind: 'stored', durable, atMs: 0, tookMs: 0 };

  let nowMs = 0;
  let lag: Lag;
  let fileState: FileState;
  beforeEach(() => {
    nowMs = 1_000_000;
    lag = new Lag(() => nowMs);
    fileState = newFileState('r.dat', 'result');
  });

  function happen(...events: readonly FileEvent[]): boolean[] {
    return events.map((event) => {
      fileState = decide(fileState, event);
      return lag.changed(fileState);
    });
  }
  const close = (): boolean[] => happen({ kind: 'closed', how: 'close', atMs: nowMs });

  it('is the age of the oldest closed content that is not durable', () => {
    expect(close()).toEqual([true]);
    happen({ kind: 'push-started' });
    nowMs += 9900;
    expect(lag.oldest()).toEqual({ ms: 9900, files: 1, path: 'r.dat' });
    happen(stored);
    expect(lag.oldest()).toBeUndefined();
  });

  it('counts from the close during the sending of the older content', () => {
    close();
    happen({ kind: 'push-started' });
    nowMs += 8000;
    close();
    happen(stored);
    nowMs += 8000;
    expect(lag.oldest()).toMatchObject({ ms: 8000 });
  });

  it('leaves out a file that is being rewritten', () => {
    close();
    expect(happen({ kind: 'push-started' }, { kind: 'has-writer' })).toEqual([true, false]);
    nowMs += 60_000;
    expect(lag.oldest()).toBeUndefined();
  });

  it('is never negative, also when the clock is set back', () => {
    close();
    nowMs -= 3_600_000;
    expect(lag.oldest()).toMatchObject({ ms: 0 });
  });
});

describe('the minute line', () => {
  const NOTHING: SoFar = { checkpoints: 0, newestAgeMs: 0, results: 0, bytes: 0, lag: undefined };

  let said: { readonly text: string; readonly fields: object | undefined }[] = [];
  let stored = { files: 0, bytes: 0 };
  let gauges: Gauges;
  const dir = testDir();
  afterAll(() => dir.remove());
  beforeEach(() => {
    vi.useFakeTimers();
    said = [];
    stored = { files: 0, bytes: 0 };
    const context = {
      root: dir,
      settings: { reclaim: 'auto' },
      log: { info: (text: string, fields?: object) => void said.push({ text, fields }) },
      attempt: 1,
      ledger: { generations: [], takeovers: [] },
      paths: new Paths(),
      now: () => Date.now(),
    };
    const results = {
      stored: () => Promise.resolve(stored),
      copies: { bytes: 0 },
    };
    gauges = new Gauges(...([context, results] as unknown as ConstructorParameters<typeof Gauges>));
  });
  afterEach(() => {
    gauges.close();
    vi.useRealTimers();
  });

  it('shows what is stored, the age of the newest checkpoint, and the lag', () => {
    const lag = { ms: 300, files: 1, path: 'r.dat' };
    expect(minuteLine({ checkpoints: 12, newestAgeMs: 8400, results: 340, bytes: 2.1 * 2 ** 30, lag })).toBe(
      '12 checkpoints safe, newest 8 s old; 340 results stored, 2.1 GiB; behind by 300 ms',
    );
  });

  it('names files that have waited for long', () => {
    const lag = { ms: 14_000, files: 3, path: 'r.dat' };
    expect(minuteLine({ ...NOTHING, lag })).toBe(
      'behind by 14.0 s: 3 closed files not stored yet, the oldest is r.dat',
    );
    expect(minuteLine({ ...NOTHING, lag: { ...lag, bytes: 1.2 * 2 ** 30 } })).toBe(
      'behind by 14.0 s: 3 closed files (1.2 GiB) not stored yet, the oldest is r.dat',
    );
  });

  it('comes at most once a minute, however much happens', async () => {
    for (let tick = 0; tick < 300; tick += 1) {
      stored = { files: tick, bytes: 0 };
      gauges.stored();
      await vi.advanceTimersByTimeAsync(1000);
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

  it('has no timer, and is not written, while nothing happens', async () => {
    expect(vi.getTimerCount()).toBe(0);
    stored = { files: 1, bytes: 0 };
    gauges.stored();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(said).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(said).toHaveLength(1);
  });

  it('is not written when it would be empty, nor after the end', async () => {
    gauges.stored();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(said).toEqual([]);
    gauges.stored();
    gauges.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is repeated while something waits, even if nothing else happens', async () => {
    const before = newFileState('r.dat', 'result');
    gauges.changed(decide(before, { kind: 'closed', how: 'close', atMs: Date.now() }), before);
    dir.write('r.dat', Buffer.alloc(3000));
    await vi.advanceTimersByTimeAsync(180_000);
    expect(said).toHaveLength(3);
    expect(said[0]?.text).toBe(
      'behind by 1 min 0 s: 1 closed file (2.9 KiB) not stored yet, the oldest is r.dat',
    );
    expect(said[0]?.fields).toMatchObject({ lagMs: 60_000, waiting: 1, waitingBytes: 3000 });
  });
});
