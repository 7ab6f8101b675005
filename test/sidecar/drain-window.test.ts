import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openDrainWindow } from '../../src/sidecar/drain-window.ts';
import { insist } from '../../src/sidecar/insist.ts';
import { StoreError } from '../../src/store/store.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const open = (deadlineMs: number | undefined, signal = new AbortController().signal) =>
  openDrainWindow({ deadlineMs, drainTimeoutMs: 60_000, now: Date.now, signal });

it('ends with --drain-timeout, and gives the last record ten seconds more', () => {
  const window = open(undefined);
  vi.advanceTimersByTime(59_999);
  expect(window.files.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect([window.files.aborted, window.record.aborted]).toEqual([true, false]);
  vi.advanceTimersByTime(10_000);
  expect(window.record.aborted).toBe(true);
});

it('ends a second before a known deadline, and the record at the deadline', () => {
  const window = open(Date.now() + 5000);
  vi.advanceTimersByTime(4000);
  expect([window.files.aborted, window.record.aborted]).toEqual([true, false]);
  vi.advanceTimersByTime(1000);
  expect(window.record.aborted).toBe(true);
});

it('is shortened by a later deadline, never lengthened', () => {
  const window = open(undefined);
  window.endBy(Date.now() + 3000);
  window.endBy(Date.now() + 30_000);
  vi.advanceTimersByTime(3000);
  expect([window.files.aborted, window.record.aborted]).toEqual([true, true]);
});

it('is over when everything is given up', () => {
  const stop = new AbortController();
  const window = open(undefined, stop.signal);
  stop.abort(new Error('fenced'));
  expect([window.files.aborted, window.record.aborted]).toEqual([true, true]);
});

it('is used to the end by a step that the store refuses, and not by a step that fails otherwise', async () => {
  const window = open(undefined);
  let tries = 0;
  const refused = insist(async () => {
    tries += 1;
    throw new StoreError('expired', `try ${tries}`);
  }, window.files);
  const outcome = expect(refused).rejects.toThrow(/^try \d+$/);
  await vi.advanceTimersByTimeAsync(60_000);
  await outcome;
  expect(tries).toBeGreaterThan(5);
  const bug = insist(async () => {
    throw new TypeError('a bug');
  }, new AbortController().signal);
  await expect(bug).rejects.toThrow('a bug');
});

it('gives what a step returns once the store works', async () => {
  let tries = 0;
  const step = async (): Promise<string> => {
    tries += 1;
    if (tries < 4) throw new StoreError('transient', 'busy');
    return 'written';
  };
  const written = insist(step, open(undefined).files);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await written).toBe('written');
});
