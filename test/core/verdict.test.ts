import { describe, expect, it } from 'vitest';
import { isSuspect, type Ending } from '../../src/core/suspect.ts';
import { verdictOf, type Outcome } from '../../src/core/verdict.ts';

const fine: Outcome = {
  task: { code: 0 },
  preempted: false,
  left: [],
  allNamedStored: true,
  preemptedStatus: 75,
};
const left = [{ path: 'r.dat', why: 'no time was left' }];

describe('the verdict', () => {
  it.each<[string, Partial<Outcome>, string, number]>([
    ['a task that succeeds with everything stored', {}, 'done', 0],
    ['a task that succeeds with something left', { left }, 'failed', 74],
    ['a task that fails', { task: { code: 3 } }, 'failed', 3],
    ['a task that fails with something left', { task: { code: 3 }, left }, 'failed', 3],
    ['a task that is killed', { task: { signalNumber: 9 } }, 'failed', 137],
    ['a preempted task that dies by TERM', { task: { signalNumber: 15 }, preempted: true }, 'preempted', 75],
    [
      'a preempted task that ends unfinished with 0',
      { preempted: true, allNamedStored: false },
      'preempted',
      75,
    ],
    ['a preempted task that finishes all the same', { preempted: true }, 'done', 0],
    [
      'a preempted task under another status',
      { task: { code: 1 }, preempted: true, preemptedStatus: 99 },
      'preempted',
      99,
    ],
    ['a task of which nothing is known', { task: undefined }, 'ended', 0],
    ['a task of which nothing is known with something left', { task: undefined, left }, 'ended', 74],
  ])('of %s is the truth', (_, outcome, kind, status) => {
    expect(verdictOf({ ...fine, ...outcome })).toEqual({ kind, status });
  });
});

describe('a close', () => {
  const died: Ending = { clean: false, endedAtMs: 100_000, signalledAtMs: undefined, killed: false };
  const at = (atMs: number, how: 'close' | 'rename' | 'link' = 'close') => ({ how, atMs });

  it.each<[string, ReturnType<typeof at>, Partial<Ending>, boolean]>([
    ['is trusted when the task ended with 0', at(99_999), { clean: true }, false],
    ['is suspect just before a failure', at(99_000), {}, true],
    ['is trusted long before a failure', at(89_000), {}, false],
    ['by rename is never suspect', at(99_999, 'rename'), {}, false],
    ['by link is never suspect', at(99_999, 'link'), {}, false],
    [
      'before the signal that killed the task is trusted',
      at(94_000),
      { killed: true, signalledAtMs: 95_000 },
      false,
    ],
    [
      'after the signal that killed the task is suspect',
      at(95_001),
      { killed: true, signalledAtMs: 95_000 },
      true,
    ],
    [
      'is trusted when the task lived on after it handled the signal',
      at(96_000),
      { signalledAtMs: 95_000 },
      false,
    ],
    ['is suspect when the task ended right after it', at(99_900), { signalledAtMs: 95_000 }, true],
    ['is suspect when the main process was killed at that moment', at(99_990), { killed: true }, true],
    ['is trusted well before the main process was killed', at(97_000), { killed: true }, false],
  ])('%s', (_, close, ending, expected) => {
    expect(isSuspect(close, { ...died, ...ending })).toBe(expected);
  });
});
