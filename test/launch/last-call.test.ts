// The one deadline: who sets it, who takes it back, and what time stopped does to it.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Countdowns, LastCall } from '../../src/launch/last-call.ts';
import { adoptClock, clockMs, clockOffsetMs } from '../../src/native/clock.ts';

let did: string[];
beforeEach(() => {
  did = [];
  vi.useFakeTimers({ now: 0 });
  adoptClock(clockOffsetMs() - clockMs());
});
afterEach(() => vi.useRealTimers());

function open(): LastCall {
  return new LastCall({
    countdowns: new Countdowns(),
    isForTask: () => true,
    signalTask: () => did.push(`tell ${Date.now()}`),
    killTask: () => did.push(`kill ${Date.now()}`),
    changed: (deadlineMs) => did.push(`deadline ${deadlineMs}`),
  });
}
const call = (from: string, deadlineMs: number, isFixed = false) => ({
  from,
  deadlineMs,
  isFixed,
});

test('the task is told shortly before its time is over, and killed then', () => {
  open().begin(call('notice', 30_000));
  vi.advanceTimersByTime(30_000);
  expect(did).toEqual(['deadline 30000', 'tell 18000', 'kill 20000']);
});

test('in a short window it is told a tenth of it before', () => {
  open().begin(call('notice', 6000));
  vi.advanceTimersByTime(6000);
  expect(did).toEqual(['deadline 6000', 'tell 3400', 'kill 4000']);
});

test('a short drain leaves the task more of the window, a second call only less', () => {
  const lastCall = open();
  lastCall.begin(call('notice', 60_000));
  lastCall.drainTakes(100);
  expect(lastCall.taskDeadlineMs()).toBe(57_000);
  lastCall.begin(call('SIGTERM', 30_000));
  expect(lastCall.deadlineMs()).toBe(30_000);
  lastCall.begin(call('later', 90_000));
  expect(lastCall.deadlineMs()).toBe(30_000);
});

test('a call is taken back, but not once the task was told', () => {
  const lastCall = open();
  lastCall.begin(call('notice', 30_000));
  lastCall.withdraw('notice');
  expect([lastCall.deadlineMs(), lastCall.preempted()]).toEqual([undefined, false]);
  lastCall.begin(call('again', 30_000));
  lastCall.taskSignalled();
  lastCall.withdraw('again');
  expect([lastCall.deadlineMs(), lastCall.preempted()]).toEqual([30_000, true]);
});

test('the time in which we were stopped is given back to a grace, not to an instant', () => {
  const lastCall = open();
  lastCall.begin(call('SIGTERM', 30_000));
  lastCall.lengthen(5000);
  expect(lastCall.deadlineMs()).toBe(35_000);
  lastCall.begin(call('the machine goes', 20_000, true));
  lastCall.lengthen(5000);
  expect(lastCall.deadlineMs()).toBe(20_000);
});
