import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { openOutage, type Outage } from '../../../src/sidecar/run/outage.ts';
import { StoreError } from '../../../src/store/contract/store.ts';

const busy = new StoreError('transient', 'PutObject s3://b/r: the server is busy (http 503, 1 try)');
const denied = new StoreError('denied', 'PutObject s3://b/r: access denied', { hint: 'check the rights' });

let said: string[];
let outage: Outage;
let over: number;

beforeEach(() => {
  vi.useFakeTimers();
  said = [];
  over = 0;
  const say = (message: string, fields?: { hint?: string }): void => {
    said.push(fields?.hint === undefined ? message : `${message} (${fields.hint})`);
  };
  const log: Log = {
    debug: say,
    info: say,
    warn: say,
    error: say,
    ofAttempt: () => undefined,
    draw: undefined,
    close: async () => undefined,
  };
  outage = openOutage(log, Date.now);
});
afterEach(() => {
  outage.close();
  vi.useRealTimers();
});

function runs(waiting: number): void {
  outage.tried('read', undefined);
  outage.runs({ waiting: () => waiting, onOver: () => (over += 1) });
}

describe('an outage', () => {
  it('is reported after three seconds of failures, with what waits, and its end is reported once', () => {
    runs(3);
    for (let n = 0; n < 50; n += 1) outage.tried('write', busy);
    vi.advanceTimersByTime(2900);
    expect(said).toEqual([]);
    expect(outage.isKnown).toBe(false);
    vi.advanceTimersByTime(200);
    outage.tried('write', busy);
    expect(said).toEqual([`the store does not work: ${busy.message}; 3 files wait and are tried again`]);
    expect(outage.isKnown).toBe(true);
    outage.tried('write', undefined);
    outage.tried('write', undefined);
    expect(said.slice(1)).toEqual(['the store works again, after 3.1 s']);
    expect(over).toBe(1);
  });

  it('is not reported when a write succeeds in between', () => {
    runs(1);
    for (let n = 0; n < 20; n += 1) {
      outage.tried('write', busy);
      vi.advanceTimersByTime(1000);
      outage.tried('write', undefined);
    }
    expect(said).toEqual([]);
  });

  it('of writes is not over because reads work', () => {
    runs(1);
    outage.tried('write', busy);
    vi.advanceTimersByTime(3000);
    outage.tried('read', undefined);
    expect(outage.isKnown).toBe(true);
  });

  it('that no retry can cure is reported at once, and the same one only once', () => {
    runs(1);
    for (let n = 0; n < 3; n += 1) {
      outage.tried('write', denied);
      outage.tried('write', undefined);
    }
    expect(said.filter((line) => line.includes('does not work'))).toEqual([
      `the store does not work: ${denied.message}; 1 file waits and is tried again (check the rights)`,
    ]);
  });

  it('is reported once more when the task ends during it, with the time that is left', () => {
    runs(2);
    outage.tried('write', denied);
    outage.drains(3_600_000);
    expect(said.at(-1)).toBe(
      `the task has ended, and the store does not work: ${denied.message}; ` +
        '2 files wait and are tried again for up to 1 h 0 min (check the rights)',
    );
  });

  it('at the start is reported when nothing has answered yet', () => {
    vi.advanceTimersByTime(3000);
    expect(said).toEqual([
      'the store does not work: no answer yet; waiting for it, the task is not started yet',
    ]);
  });

  it('is not reported when only deletions fail: they have a warning of their own', () => {
    runs(1);
    outage.tried('remove', denied);
    vi.advanceTimersByTime(60_000);
    expect(said).toEqual([]);
  });
});
