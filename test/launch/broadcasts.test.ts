// Which signals of the launcher the task has got already: `Broadcasts` of signals.ts, by itself.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Broadcasts } from '../../src/launch/signals.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

describe('a signal that the launcher received', () => {
  test('was broadcast when the sidecar saw it shortly before', async () => {
    const broadcasts = new Broadcasts();
    broadcasts.seen('SIGTERM');
    await vi.advanceTimersByTimeAsync(900);
    expect(await broadcasts.covers('SIGTERM')).toBe(true);
  });

  test('was broadcast when the sidecar reports it within the window', async () => {
    const broadcasts = new Broadcasts();
    const covered = broadcasts.covers('SIGTERM');
    await vi.advanceTimersByTimeAsync(90);
    broadcasts.seen('SIGTERM');
    expect(await covered).toBe(true);
  });

  test.each([
    ['the sidecar saw nothing', undefined, 0],
    ['the sidecar saw another signal', 'SIGINT', 0],
    ['what the sidecar saw is long past', 'SIGTERM', 1100],
  ])('was not broadcast when %s', async (_, seen, beforeMs) => {
    const broadcasts = new Broadcasts();
    if (seen !== undefined) broadcasts.seen(seen);
    await vi.advanceTimersByTimeAsync(beforeMs);
    const covered = broadcasts.covers('SIGTERM');
    await vi.advanceTimersByTimeAsync(100);
    expect(await covered).toBe(false);
  });

  test('is relayed when it comes once more than the sidecar saw it', async () => {
    const broadcasts = new Broadcasts();
    broadcasts.seen('SIGTERM');
    const deliveries = [broadcasts.covers('SIGTERM'), broadcasts.covers('SIGTERM')];
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all(deliveries)).toEqual([true, false]);
  });

  test('is answered when everything is closed', async () => {
    const broadcasts = new Broadcasts();
    const covered = broadcasts.covers('SIGTERM');
    broadcasts.close();
    expect(await covered).toBe(false);
  });
});
