import { beforeEach, describe, expect, it } from 'vitest';
import { decide, type FileEvent } from '../../../src/model/file/decide.ts';
import { type FileState, newFileState } from '../../../src/model/file/file-state.ts';
import { Lag } from '../../../src/sidecar/disk/lag.ts';

const durable = {
  fingerprint: { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1' },
  md5: 'x',
  size: 1,
};
const stored: FileEvent = { kind: 'stored', durable, atMs: 0, tookMs: 0 };

/** All the time there is is the test's. */
let nowMs = 0;
let lag: Lag;
let fileState: FileState;
beforeEach(() => {
  nowMs = 1_000_000;
  lag = new Lag(() => nowMs);
  fileState = newFileState('r.dat', 'result', false);
});

function happen(...events: readonly FileEvent[]): boolean[] {
  return events.map((event) => {
    fileState = decide(fileState, event);
    return lag.changed(fileState);
  });
}
const close = (): boolean[] => happen({ kind: 'closed', how: 'close', atMs: nowMs });

describe('the lag', () => {
  it('is the age of the oldest closed content that is not durable', () => {
    expect(close()).toEqual([true]);
    happen({ kind: 'push-started' });
    nowMs += 9900;
    expect(lag.oldest()).toEqual({ ms: 9900, files: 1, path: 'r.dat' });
    happen(stored);
    expect(lag.oldest()).toBeUndefined();
  });

  it('counts from the close that came while the older content was sent', () => {
    close();
    happen({ kind: 'push-started' });
    nowMs += 8000;
    close();
    happen(stored);
    nowMs += 8000;
    expect(lag.oldest()).toMatchObject({ ms: 8000 });
  });

  it('says nothing of a file that somebody writes again', () => {
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
