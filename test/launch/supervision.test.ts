// What a signal that comes again does to the time that the task has left; and one that comes when the task has ended.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Supervision } from '../../src/launch/supervision.ts';
import type { Task } from '../../src/launch/task.ts';
import type { ToSidecar } from '../../src/model/format/messages.ts';
import { adoptClock, clockMs, clockOffsetMs } from '../../src/native/clock.ts';

const SENDER = { why: 'SIGTERM', reason: 'SIGTERM, sender unknown' };

let supervision: Supervision;
let killedAtMs: number[];
/** The sidecar. */
let told: ToSidecar[];
beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  adoptClock(clockOffsetMs() - clockMs());
  killedAtMs = [];
  told = [];
  supervision = new Supervision({
    settings: { graceMs: 600_000, notices: { sources: [], signals: ['SIGUSR1'], tell: 'none' } },
    sharesGroup: false,
    tell: (message) => void told.push(message),
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

describe('the cause of a stop', () => {
  const causes = (): readonly unknown[] => told.filter(({ kind }) => kind === 'stop-cause');
  const byInt = { code: undefined, signal: 'SIGINT' } as const;

  test('is told as soon as the sender of SIGTERM is known, once', () => {
    supervision.received('SIGTERM');
    expect(causes()).toEqual([{ kind: 'stop-cause', cause: SENDER }]);
    supervision.tellCause({ code: undefined, signal: 'SIGTERM' });
    expect(causes()).toHaveLength(1);
  });

  test('is a signal that came and ended the task', () => {
    supervision.received('SIGINT');
    supervision.tellCause(byInt);
    expect(causes()).toEqual([
      { kind: 'stop-cause', cause: { why: 'SIGINT', reason: 'SIGINT, as by Ctrl-C' } },
    ]);
  });

  test('is no signal that the task survived, or that somebody else sent to it', () => {
    supervision.tellCause(byInt);
    supervision.received('SIGINT');
    supervision.tellCause({ code: 3, signal: undefined });
    expect(causes()).toEqual([]);
  });
});

describe('a signal for each process of a job that reaches the task first', () => {
  const TERM_STATUS = 128 + 15;
  const byTerm = { code: undefined, signal: 'SIGTERM' } as const;
  const byItself = (code: number) => ({ code, signal: undefined });

  test.each([
    ['SIGTERM', byTerm],
    ['SIGTERM', byItself(TERM_STATUS)],
    ['SIGUSR1', { code: undefined, signal: 'SIGUSR1' }],
  ] as const)('%s that comes 2 s after the death that it made is the preemption', async (signal, end) => {
    const known = supervision.taskEnded(end);
    vi.advanceTimersByTime(1999);
    supervision.received(signal);
    await known;
    expect(supervision.lastCall.preempted()).toBe(true);
    // What was closed before it is not safe for that.
    expect(told.map(({ kind }) => kind)).not.toContain('task-signalled');
  });

  test.each([
    ['within 100 ms of an end of another kind', 99, true],
    ['later', 101, false],
  ])('SIGTERM %s', async (_, ms, isPreempted) => {
    const known = supervision.taskEnded(byItself(1));
    await vi.advanceTimersByTimeAsync(ms);
    supervision.received('SIGTERM');
    await known;
    expect(supervision.lastCall.preempted()).toBe(isPreempted);
  });

  test('is waited for by none that ends well', async () => {
    await supervision.taskEnded(byItself(0));
    supervision.received('SIGTERM');
    expect(supervision.lastCall.preempted()).toBe(false);
  });

  test('is waited for by none that has heard of it', async () => {
    supervision.received('SIGTERM');
    await supervision.taskEnded(byTerm);
    expect(supervision.lastCall.preempted()).toBe(true);
  });
});
