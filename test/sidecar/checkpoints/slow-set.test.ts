// The task closes checkpoints faster than the link carries them. The time is the test's.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { TakenCut } from '../../../src/sidecar/checkpoints/cutting.ts';
import { SlowSet } from '../../../src/sidecar/checkpoints/slow-set.ts';
import type { Context } from '../../../src/sidecar/run/context.ts';

describe('a set that takes long to send', () => {
  const taken = { states: new Map([['k', { size: 500e6 }]]) } as unknown as TakenCut;
  let said: string[] = [];
  let isKnown = false;
  let slow: SlowSet;
  beforeEach(() => {
    vi.useFakeTimers();
    said = [];
    isKnown = false;
    const log = { warn: (text: string, { hint }: { hint: string }) => said.push(`${text}; try: ${hint}`) };
    const outage = {
      get isKnown() {
        return isKnown;
      },
    };
    slow = new SlowSet({ settings: { bandwidthBytes: 1e6 }, log, outage } as unknown as Context);
  });
  afterEach(() => {
    slow.ended();
    vi.useRealTimers();
  });

  it('is reported once, within a minute, with the option to set', () => {
    slow.began(taken, () => true);
    vi.advanceTimersByTime(44_000);
    expect(said).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(said).toEqual([
      expect.stringMatching(/1 file \(476\.8 MiB\).* after 45\.0 s.*try: a higher --bandwidth/),
    ]);
    slow.began(taken, () => true);
    vi.advanceTimersByTime(100_000);
    expect(said).toHaveLength(1);
  });

  it('is not reported if no newer set waits for it, if it was sent, or if the store does not work', () => {
    slow.began(taken, () => false);
    vi.advanceTimersByTime(100_000);
    slow.began(taken, () => true);
    slow.ended();
    vi.advanceTimersByTime(100_000);
    isKnown = true;
    slow.began(taken, () => true);
    vi.advanceTimersByTime(100_000);
    expect(said).toEqual([]);
  });
});
