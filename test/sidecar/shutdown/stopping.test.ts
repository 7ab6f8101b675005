// What is done when it is known that we will be stopped, before and after the task has ended.
import { afterEach, expect, it, vi } from 'vitest';
import type { DrainWindow } from '../../../src/sidecar/shutdown/drain-window.ts';
import { Stopping, type StoppingOptions } from '../../../src/sidecar/shutdown/stopping.ts';

afterEach(() => vi.useRealTimers());

function open(): { stopping: Stopping; did: string[]; limited: string[]; window: DrainWindow } {
  const did: string[] = [];
  const limited: string[] = [];
  const limit = {
    lift: () => limited.push('lifted') === 1,
    restore: () => limited.push('restored'),
  };
  const files = {
    deadline: (atMs: number | undefined) => did.push(`deadline ${atMs}`),
    drainMs: 1234.5,
    forgetRate: () => limited.push('rate forgotten'),
  };
  const options = {
    context: { signal: new AbortController().signal, sender: { bandwidth: limit } },
    files,
    generations: { stopping: (atMs?: number) => did.push(`companions ${atMs}`) },
    staged: { signalled: (atMs: number) => did.push(`staged ${atMs}`) },
    flush: { now: async () => void did.push('flush') },
    outputs: { soon: () => undefined },
    onDrainTakes: (ms: number) => did.push(`takes ${ms}`),
  };
  const window = { endBy: (atMs: number) => did.push(`window ${atMs}`) } as unknown as DrainWindow;
  return { stopping: new Stopping(options as unknown as StoppingOptions), did, limited, window };
}

it('after a notice, closed files are sent at once, and the time that the drain needs is reported repeatedly', () => {
  vi.useFakeTimers();
  const { stopping, did } = open();
  stopping.noticed(60_000);
  expect(did).toEqual(['deadline 59000', 'companions undefined', 'flush', 'takes 1235']);
  vi.advanceTimersByTime(2000);
  expect(did.slice(4)).toEqual(['takes 1235', 'takes 1235']);
  stopping.noticed(undefined);
  vi.advanceTimersByTime(5000);
  expect(did.slice(6)).toEqual(['deadline undefined']);
});

it('a notice during the drain shortens it', () => {
  const { stopping, did, window } = open();
  stopping.drains(window);
  stopping.noticed(60_000);
  stopping.taskSignalled(5);
  stopping.advised();
  expect(did).toEqual(['deadline 59000', 'window 60000']);
});

it('a recommendation makes closed files safe and sets no deadline', () => {
  const { stopping, did } = open();
  stopping.advised();
  expect(did).toEqual(['companions undefined', 'flush']);
});

it('from the first signal to the task on, no close proves anything', () => {
  const { stopping, did } = open();
  stopping.taskSignalled(5);
  stopping.taskSignalled(7);
  expect(stopping.signalledAtMs).toBe(5);
  expect(did.slice(0, 2)).toEqual(['staged 5', 'companions 5']);
});

it('a notice suspends --bandwidth until it is withdrawn; a signal to the task suspends it for good', () => {
  const { stopping, limited } = open();
  stopping.noticed(60_000);
  expect(limited).toEqual(['lifted', 'rate forgotten']);
  stopping.noticed(undefined);
  expect(limited.slice(2)).toEqual(['restored']);
  stopping.taskSignalled(5);
  stopping.noticed(60_000);
  stopping.noticed(undefined);
  expect(limited.slice(3)).toEqual(['lifted', 'lifted']);
  stopping.close();
});
