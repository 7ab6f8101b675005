import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CompanionClock, openCompanionClock } from '../../../src/sidecar/checkpoints/captures.ts';

const EVERY_MS = 300_000;

let captures: (() => void)[];
let clock: CompanionClock;

beforeEach(() => {
  vi.useFakeTimers();
  captures = [];
  clock = openCompanionClock(() => new Promise((resolve) => captures.push(resolve)), EVERY_MS);
});
afterEach(() => {
  clock.close();
  vi.useRealTimers();
});

describe('companions without a checkpoint', () => {
  it('are captured five minutes after the last capture', async () => {
    await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
    expect(captures).toHaveLength(0);
    clock.captured();
    await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
    expect(captures).toHaveLength(0);
    await vi.advanceTimersByTimeAsync(1);
    expect(captures).toHaveLength(1);
  });

  it('are captured again five minutes after a capture has ended, however long it took', async () => {
    clock.now();
    await vi.advanceTimersByTimeAsync(3 * EVERY_MS);
    expect(captures).toHaveLength(1);
    captures[0]?.();
    await vi.advanceTimersByTimeAsync(EVERY_MS);
    expect(captures).toHaveLength(2);
  });

  it('are captured once when they are asked for twice', () => {
    clock.now();
    clock.now();
    expect(captures).toHaveLength(1);
  });

  it('are not captured any more at the end', async () => {
    clock.close();
    clock.now();
    clock.captured();
    await vi.advanceTimersByTimeAsync(2 * EVERY_MS);
    expect(captures).toHaveLength(0);
  });
});
