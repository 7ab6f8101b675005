// The sign of life of a running attempt. What it writes when something was stored is shown by whole runs.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Recorder } from '../../../src/sidecar/queue/recorder.ts';

const HOUR_MS = 3_600_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

/** A ledger that keeps time and counts. */
class CountedLedger {
  writtenMs = performance.now();
  unrecordedCount = 0;
  failing = false;
  readonly wrote: number[] = [];

  async write(): Promise<void> {
    if (this.failing) throw new Error('no store');
    this.writtenMs = performance.now();
    this.wrote.push(performance.now());
  }
}

function begun(): { readonly ledger: CountedLedger; readonly recorder: Recorder } {
  const ledger = new CountedLedger();
  const context = {
    settings: { reclaim: 'auto' },
    log: { warn: () => undefined },
    signal: new AbortController().signal,
    outage: { isKnown: false },
    ledger,
  };
  const recorder = new Recorder(context as never, async () => undefined);
  recorder.begin();
  return { ledger, recorder };
}

it('writes a record once an hour if there is nothing else to record', async () => {
  const { ledger, recorder } = begun();
  await vi.advanceTimersByTimeAsync(HOUR_MS - 1);
  expect(ledger.wrote).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(ledger.wrote).toEqual([HOUR_MS]);
  await vi.advanceTimersByTimeAsync(3 * HOUR_MS);
  expect(ledger.wrote).toHaveLength(4);
  await recorder.stop();
});

it('counts the hour from the last record, no matter what wrote it', async () => {
  const { ledger, recorder } = begun();
  await vi.advanceTimersByTimeAsync(HOUR_MS / 2);
  await ledger.write(); // a checkpoint
  await vi.advanceTimersByTimeAsync(HOUR_MS - 1);
  expect(ledger.wrote).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(ledger.wrote).toHaveLength(2);
  await recorder.stop();
});

it('tries again after some minutes if the store does not take it', async () => {
  const { ledger, recorder } = begun();
  ledger.failing = true;
  await vi.advanceTimersByTimeAsync(HOUR_MS + 60_000);
  ledger.failing = false;
  expect(ledger.wrote).toEqual([]);
  await vi.advanceTimersByTimeAsync(300_000);
  expect(ledger.wrote).toHaveLength(1);
  await recorder.stop();
});

it('waits before it tries again, even if very much is to be recorded', async () => {
  const { ledger, recorder } = begun();
  const write = vi.spyOn(ledger, 'write');
  ledger.failing = true;
  ledger.unrecordedCount = 4000;
  recorder.due();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(write.mock.calls.length).toBeGreaterThan(1);
  expect(write.mock.calls.length).toBeLessThan(10);
  ledger.failing = false;
  ledger.unrecordedCount = 0;
  await recorder.stop();
});

it('leaves no timer if it is stopped while it writes a sign of life', async () => {
  const { ledger, recorder } = begun();
  let written: (() => void) | undefined;
  ledger.write = () => new Promise((resolve) => (written = resolve));
  await vi.advanceTimersByTimeAsync(HOUR_MS);
  const stopped = recorder.stop();
  written?.();
  await stopped;
  await vi.advanceTimersByTimeAsync(1);
  expect(vi.getTimerCount()).toBe(0);
});

it('writes nothing after it was stopped', async () => {
  const { ledger, recorder } = begun();
  await recorder.stop();
  await vi.advanceTimersByTimeAsync(5 * HOUR_MS);
  expect(ledger.wrote).toEqual([]);
});
