import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openDrainWindow, retryUntil } from '../../../src/sidecar/shutdown/drain-window.ts';
import { StoreError } from '../../../src/store/contract/store.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const open = (deadlineMs: number | undefined, stop = new AbortController()) =>
  openDrainWindow({ deadlineMs, drainTimeoutMs: 60_000, now: Date.now, stop });

it('ends with --drain-timeout, and gives the last record ten seconds more', () => {
  const window = open(undefined);
  vi.advanceTimersByTime(59_999);
  expect(window.files.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect([window.files.aborted, window.record.aborted]).toEqual([true, false]);
  vi.advanceTimersByTime(10_000);
  expect(window.record.aborted).toBe(true);
});

it('gives up everything that is still under way when it is over', () => {
  const stop = new AbortController();
  open(Date.now() + 5000, stop);
  vi.advanceTimersByTime(4999);
  expect(stop.signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(stop.signal.aborted).toBe(true);
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
  const window = open(undefined, stop);
  stop.abort(new Error('fenced'));
  expect([window.files.aborted, window.record.aborted]).toEqual([true, true]);
});

it('is used only by a step that the store refuses, until the window ends', async () => {
  vi.useRealTimers();
  const stop = new AbortController();
  let tries = 0;
  const step = async (): Promise<never> => {
    tries += 1;
    if (tries === 3) stop.abort(new Error('no time is left'));
    throw new StoreError('expired', `try ${tries}`);
  };
  await expect(retryUntil(step, stop.signal)).rejects.toThrow('try 3');
  const bug = async (): Promise<never> => {
    tries += 1;
    throw new TypeError('a bug');
  };
  await expect(retryUntil(bug, new AbortController().signal)).rejects.toThrow('a bug');
  expect(tries).toBe(4);
});

it('returns the result of a step once the store works', async () => {
  vi.useRealTimers();
  let tries = 0;
  const step = async (): Promise<string> => {
    tries += 1;
    if (tries < 3) throw new StoreError('transient', 'busy');
    return 'written';
  };
  expect(await retryUntil(step, new AbortController().signal)).toBe('written');
});
