// 10,000 tasks of an array that start, or are ended, in one second, in simulated time: each gets through, without many more requests than
// they need, and they do not come back in step. One seed, so the counts are always the same.
import { describe, expect, it } from 'vitest';
import {
  type ArrayStarted,
  END,
  FIRST_START,
  type Limits,
  rgwLimits,
  S3_LIMITS,
  startArray,
} from '../../bench/lib/array-start.ts';

const TASKS = 10_000;

function start(limits: Limits, jitter = true): Promise<ArrayStarted> {
  const requests = limits === S3_LIMITS ? FIRST_START.aws : FIRST_START.other;
  return startArray({ tasks: TASKS, requests, limits, jitter });
}

/** SIGTERM to SIGKILL is 30 s in most places; of that `--grace` takes 27 s, and the record needs 1 s. */
const WINDOW_S = 26;

describe('10,000 tasks that are ended in one second', () => {
  it.each<[string, Limits]>([
    ['S3', S3_LIMITS],
    ['a Ceph RGW that serves 2,000 requests a second', rgwLimits(2000)],
  ])('store a last result and their last record on %s before they are killed', async (_, limits) => {
    const { started, allS } = await startArray({ tasks: TASKS, requests: END, limits, jitter: true });
    expect(started).toBe(TASKS);
    expect(allS).toBeLessThan(WINDOW_S);
  });
});

describe('10,000 tasks that start in one second', () => {
  it.each<[string, Limits, { readonly tries: number; readonly times: number }]>([
    ['S3', S3_LIMITS, { tries: 2, times: 1.6 }],
    ['a Ceph RGW that serves 1,000 requests a second', rgwLimits(1000), { tries: 3, times: 1.1 }],
    ['a Ceph RGW that serves 500 requests a second', rgwLimits(500), { tries: 4.5, times: 1.1 }],
  ])('all get through to %s, in few tries and never in waves', async (_, limits, most) => {
    const { started, gaveUp, sent, repeated, p99S, leastS, waves } = await start(limits);
    expect({ started, gaveUp, waves }).toEqual({ started: TASKS, gaveUp: 0, waves: 0 });
    const needed = sent - repeated;
    expect(needed).toBe(TASKS * (limits === S3_LIMITS ? 5 : 7));
    expect(sent / needed).toBeLessThan(most.tries);
    // The server is never left idle while tasks wait for it.
    expect((p99S ?? Infinity) / leastS).toBeLessThan(most.times);
  });

  it('would come in waves and leave the server idle between them without jitter', async () => {
    const { waves, p99S, leastS } = await start(rgwLimits(1000), false);
    expect(waves).toBeGreaterThan(5);
    expect((p99S ?? Infinity) / leastS).toBeGreaterThan(1.2);
  });
});
