// What a signal that comes again does to the time that the task has left.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Supervision } from '../../src/launch/supervision.ts';
import type { Task } from '../../src/launch/task.ts';
import { adoptClock, clockMs, clockOffsetMs } from '../../src/native/clock.ts';

let supervision: Supervision;
let killedAtMs: number[];
beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  adoptClock(clockOffsetMs() - clockMs());
  killedAtMs = [];
  supervision = new Supervision({
    settings: { graceMs: 600_000, notices: { sources: [], signals: ['SIGUSR1'], tell: 'none' } },
    sharesGroup: false,
    tell: () => undefined,
    say: () => undefined,
  });
  supervision.taskRuns(taskThatStays());
});
afterEach(() => {
  supervision.close();
  vi.useRealTimers();
});

/** Nothing of it is real: its members are asked for when it is killed. */
function taskThatStays(): Task {
  return {
    pid: 0,
    sharesGroup: false,
    ended: new Promise(() => undefined),
    usage: () => undefined,
    signal: () => undefined,
    members: () => {
      killedAtMs.push(Date.now());
      return [];
    },
  };
}

test.each([['SIGTERM'], ['SIGUSR1']] as const)(
  '%s that comes again leaves the task five seconds',
  (signal) => {
    supervision.received(signal);
    vi.advanceTimersByTime(6000);
    supervision.received(signal);
    vi.advanceTimersByTime(4999);
    expect(killedAtMs).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(killedAtMs).toEqual([11_000]);
  },
);

test('SIGTERM that comes again within five seconds is the same one', () => {
  supervision.received('SIGTERM');
  vi.advanceTimersByTime(4000);
  supervision.received('SIGTERM');
  vi.advanceTimersByTime(60_000);
  expect(killedAtMs).toEqual([]);
});
