import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Evidence } from '../../../src/model/file/evidence.ts';
import type { Close } from '../../../src/model/file/file-state.ts';
import { type TaskEnding, isSuspect } from '../../../src/model/file/suspect.ts';
import type { EndRules } from '../../../src/model/format/settings.ts';
import {
  attemptsInVain,
  closedItsFiles,
  isComplete,
  type Outcome,
  type TaskOutcome,
  unmatched,
  verdictOf,
} from '../../../src/model/outcome/verdict.ts';
import type { AttemptEnd } from '../../../src/model/checkpoint/history.ts';
import type { Generation } from '../../../src/model/format/records.ts';

const fine: Outcome = {
  task: { code: 0 },
  preempted: false,
  left: [],
  complete: true,
  rules: { requireResults: false, doneWhen: undefined, againStatuses: [], trustedStatuses: [] },
  preemptedStatus: 75,
};
const again = { ...fine.rules, againStatuses: [85, 137] };
const doneWhen = { ...fine.rules, doneWhen: 'end.gro' };
const trusted = { ...fine.rules, trustedStatuses: [3] };
const exhausted = '3 attempts without a newer checkpoint';
const left = [{ path: 'r.dat', why: 'no time was left' }];

const ASKED = 'the task ended with 85 (--again-status)';
const LACKS = 'no end.gro is stored (--done-when)';

describe('the verdict', () => {
  it.each<[string, Partial<Outcome>, string, number, string?]>([
    ['a task that succeeds with everything stored', {}, 'done', 0],
    ['a task that succeeds with something left', { left }, 'failed', 74],
    ['a task that fails', { task: { code: 3 } }, 'failed', 3],
    ['a task that fails with something left', { task: { code: 3 }, left }, 'failed', 3],
    ['a task that is killed', { task: { signalNumber: 9 } }, 'failed', 137],
    ['a preempted task that dies by TERM', { task: { signalNumber: 15 }, preempted: true }, 'preempted', 75],
    ['a preempted task that ends unfinished with 0', { preempted: true, complete: false }, 'preempted', 75],
    ['a preempted task that finishes all the same', { preempted: true }, 'done', 0],
    [
      'a preempted task under another status',
      { task: { code: 1 }, preempted: true, preemptedStatus: 99 },
      'preempted',
      99,
    ],
    ['a preempted task that finishes with something left', { preempted: true, left }, 'failed', 74],
    ['a task that asks to be run again', { task: { code: 85 }, rules: again }, 'preempted', 75, ASKED],
    [
      'a task that asks so with something left',
      { task: { code: 85 }, rules: again, left },
      'preempted',
      75,
      ASKED,
    ],
    [
      'a task whose wrapper asks so by a signal',
      { task: { signalNumber: 9 }, rules: again },
      'preempted',
      75,
      'the task ended with 137 (--again-status)',
    ],
    ['a task that does not ask so', { task: { code: 86 }, rules: again }, 'failed', 86],
    [
      'a task that exits 0 without the result that counts',
      { complete: false, rules: doneWhen },
      'preempted',
      75,
      LACKS,
    ],
    [
      'a task that exits 0 without it and with something left',
      { complete: false, rules: doneWhen, left },
      'preempted',
      75,
      LACKS,
    ],
    ['a task that exits 0 with the result that counts', { rules: doneWhen }, 'done', 0],
    [
      'a task that fails without the result that counts',
      { task: { code: 2 }, complete: false, rules: doneWhen },
      'failed',
      2,
    ],
    ['a task that lacks a name that it need not have', { complete: false }, 'done', 0],
    ['a task whose status is trusted', { task: { code: 3 }, rules: trusted }, 'failed', 3],
    [
      'a preempted task that is not to be run again',
      { task: { signalNumber: 15 }, preempted: true, exhausted },
      'failed',
      143,
      exhausted,
    ],
    [
      'a task that asks so and is not to be run again',
      { task: { code: 85 }, rules: again, exhausted },
      'failed',
      85,
      exhausted,
    ],
    [
      'a task that ends unfinished with 0 and is not to be run again',
      { preempted: true, complete: false, exhausted },
      'failed',
      74,
      exhausted,
    ],
    ['a task that needs no other attempt', { exhausted }, 'done', 0],
    ['a task of which nothing is known', { task: undefined }, 'ended', 0],
    ['a task of which nothing is known with something left', { task: undefined, left }, 'ended', 74],
  ])('of %s is the truth', (_, outcome, kind, status, reason) => {
    expect(verdictOf({ ...fine, ...outcome })).toEqual({ kind, status, reason });
  });
});

describe('a status of 0', () => {
  const rules: fc.Arbitrary<EndRules> = fc.record({
    requireResults: fc.boolean(),
    doneWhen: fc.constantFrom(undefined, 'end.gro'),
    againStatuses: fc.uniqueArray(fc.integer({ min: 1, max: 255 }), { maxLength: 3 }),
    trustedStatuses: fc.uniqueArray(fc.integer({ min: 1, max: 255 }), { maxLength: 3 }),
  });
  const task = fc.oneof(
    fc.constant(undefined),
    fc.record({ code: fc.integer({ min: 0, max: 255 }) }),
    fc.record({ signalNumber: fc.integer({ min: 1, max: 64 }) }),
  );

  it('is never given with something left, nor to a task that did not end with 0', () => {
    fc.assert(
      fc.property(
        fc.record({
          task,
          rules,
          preempted: fc.boolean(),
          complete: fc.boolean(),
          isLeft: fc.boolean(),
          exhausted: fc.constantFrom(undefined, exhausted),
        }),
        ({ isLeft, ...given }) => {
          const verdict = verdictOf({ ...given, left: isLeft ? left : [], preemptedStatus: 75 });
          if (verdict.kind === 'done') expect(verdict.status).toBe(0);
          if (verdict.status !== 0) return;
          expect(isLeft).toBe(false);
          expect(given.task ?? { code: 0 }).toEqual({ code: 0 });
          if (given.preempted || given.rules.doneWhen !== undefined)
            expect(given.complete || given.task === undefined).toBe(true);
        },
      ),
    );
  });
});

describe('what must be there', () => {
  const all = { doneWhen: true, everyName: true, everyPattern: true };

  it.each<[string, Partial<EndRules>, Partial<typeof all>, boolean]>([
    ['is every named result', {}, { everyName: false }, false],
    ['is no pattern that never matched', {}, { everyPattern: false }, true],
    ['is each pattern when results are required', { requireResults: true }, { everyPattern: false }, false],
    ['is only the result that counts when one is named', { doneWhen: 'x' }, { everyName: false }, true],
    ['is missing when the result that counts is', { doneWhen: 'x' }, { doneWhen: false }, false],
  ])('%s', (_, rules, stored, expected) => {
    expect(isComplete({ ...fine.rules, ...rules }, { ...all, ...stored })).toBe(expected);
  });
});

describe('a task has closed its files itself', () => {
  it.each<[string, TaskOutcome, boolean]>([
    ['when it ends with 0', { code: 0 }, true],
    ['when it asks to be run again', { code: 85 }, true],
    ['when the user trusts its status', { code: 3 }, true],
    ['when the user trusts the signal that ends it', { signalNumber: 15 }, true],
    ['but not when it ends otherwise', { code: 1 }, false],
    ['nor when another signal ends it', { signalNumber: 9 }, false],
  ])('%s', (_, task, expected) => {
    const rules = { ...fine.rules, againStatuses: [85], trustedStatuses: [3, 143] };
    expect(closedItsFiles(task, rules)).toBe(expected);
  });
});

describe('a close', () => {
  const died: TaskEnding = {
    clean: false,
    endedAtMs: 100_000,
    signalledAtMs: undefined,
    writersStoppedAtMs: undefined,
    bySignal: false,
  };
  const at = (
    atMs: number,
    how: 'close' | 'rename' | 'dir-rename' | 'link' = 'close',
    evidence: Evidence = 'unknown',
  ): Close => ({ how, atMs, evidence, seq: 0 });

  it.each<[string, Close, Partial<TaskEnding>, boolean]>([
    ['is trusted when the task ended with 0', at(99_999), { clean: true }, false],
    ['is suspect just before a failure', at(99_000), {}, true],
    ['is suspect within a second of the death of the main process', at(99_100), { bySignal: true }, true],
    ['is trusted two seconds before the death of the main process', at(98_000), { bySignal: true }, false],
    ['is trusted long before a failure', at(89_000), {}, false],
    [
      'of a writer that had to be stopped is suspect',
      at(99_000),
      { clean: true, writersStoppedAtMs: 98_000 },
      true,
    ],
    [
      'before the last writers were stopped is trusted',
      at(97_000),
      { clean: true, writersStoppedAtMs: 98_000 },
      false,
    ],
    ['by rename is trusted whoever was stopped', at(99_000, 'rename'), { writersStoppedAtMs: 98_000 }, false],
    ['by rename is never suspect', at(99_999, 'rename'), {}, false],
    ['with its directory by rename is never suspect', at(99_999, 'dir-rename'), {}, false],
    ['by link is never suspect', at(99_999, 'link'), {}, false],
    [
      'before the signal that killed the task is trusted',
      at(94_000),
      { bySignal: true, signalledAtMs: 95_000 },
      false,
    ],
    [
      'after the signal that killed the task is suspect',
      at(95_001),
      { bySignal: true, signalledAtMs: 95_000 },
      true,
    ],
    [
      'is trusted when the task lived on after it handled the signal',
      at(96_000),
      { signalledAtMs: 95_000 },
      false,
    ],
    ['is suspect when the task ended right after it', at(99_900), { signalledAtMs: 95_000 }, true],
    ['is suspect when the main process was killed at that moment', at(99_990), { bySignal: true }, true],
    ['that may be a death’s is suspect just before a failure', at(99_000, 'close', 'doubtful'), {}, true],
    [
      'that may be a death’s is trusted when the task ended with 0',
      at(99_000, 'close', 'doubtful'),
      { clean: true },
      false,
    ],
    ['while nobody died is trusted whatever status follows', at(99_999, 'close', 'clean'), {}, false],
    [
      'while nobody died is trusted when the main process is killed right after it',
      at(99_999, 'close', 'clean'),
      { bySignal: true },
      false,
    ],
    [
      'while nobody died is trusted after a signal that ends the task',
      at(96_000, 'close', 'clean'),
      { bySignal: true, signalledAtMs: 95_000 },
      false,
    ],
    [
      'while nobody died is suspect when its writer had to be stopped',
      at(99_000, 'close', 'clean'),
      { clean: true, writersStoppedAtMs: 98_000 },
      true,
    ],
    [
      'that may be a death’s is suspect some seconds before the main process is killed',
      at(95_000, 'close', 'doubtful'),
      { bySignal: true },
      true,
    ],
    [
      'that may be a death’s is suspect some seconds before a signal that ends the task',
      at(95_000, 'close', 'doubtful'),
      { bySignal: true, signalledAtMs: 98_000 },
      true,
    ],
    [
      'that may be a death’s is trusted when the task has lived on for ten seconds',
      at(90_000, 'close', 'doubtful'),
      {},
      false,
    ],
    ['is trusted well before the main process was killed', at(97_000), { bySignal: true }, false],
    [
      'that may be a death’s is suspect some seconds before a signal ends the main process',
      at(90_001, 'close', 'doubtful'),
      { bySignal: true },
      true,
    ],
    [
      'that may be a death’s is suspect some seconds before a signal was passed on to its wrapper',
      at(95_000, 'close', 'doubtful'),
      { bySignal: true, signalledAtMs: 98_000 },
      true,
    ],
    [
      'that may be a death’s, and that came after the signal, is suspect however long the task lived on',
      at(95_001, 'close', 'doubtful'),
      { bySignal: true, signalledAtMs: 95_000 },
      true,
    ],
  ])('%s', (_, close, ending, expected) => {
    expect(isSuspect(close, { ...died, ...ending })).toBe(expected);
  });
});

const end = (attempt: number, marks: Partial<AttemptEnd> = {}): AttemptEnd => ({
  attempt,
  kind: 'preempted',
  status: 75,
  sameRun: true,
  runId: undefined,
  runToken: 'r',
  host: 'h',
  argv: [],
  ...marks,
});
const made = (attempt: number, marks: Partial<Generation> = {}): Generation => ({
  attempt,
  generation: 1,
  at: '2026-01-01T00:00:00.000Z',
  members: [],
  companions: [],
  ...marks,
});

describe('attempts in vain', () => {
  it.each<[string, number, readonly AttemptEnd[], readonly Generation[], number, boolean?]>([
    ['are none when this one made a checkpoint', 3, [end(1), end(2)], [made(3), made(1)], 0],
    ['are those since the newest checkpoint', 4, [end(1), end(2), end(3)], [made(2), made(1)], 2],
    ['are all when there is no checkpoint', 3, [end(1), end(2)], [], 3],
    ['are one in the first attempt', 1, [], [], 1],
    [
      'count one that made only a suspect checkpoint',
      3,
      [end(1), end(2)],
      [made(2, { suspect: true }), made(1)],
      2,
    ],
    [
      'do not when a suspect one is verified before it is used',
      3,
      [end(1), end(2)],
      [made(2, { suspect: true }), made(1)],
      1,
      true,
    ],
    ['do not when the next attempt has nothing better', 3, [end(1), end(2)], [made(2, { suspect: true })], 1],
    ['leave out other runs', 4, [end(1), end(2, { sameRun: false }), end(3)], [made(1)], 2],
    ['begin anew after what is done', 4, [end(1), end(2, { kind: 'done' }), end(3)], [made(1)], 2],
    ['count one that vanished', 3, [end(1), end(2, { kind: 'started' })], [made(1)], 2],
    ['do not count this one twice when its sidecar was replaced', 3, [end(1), end(2), end(3)], [made(1)], 2],
  ])('%s', (_, attempt, earlier, generations, count, verified = false) => {
    expect(attemptsInVain(earlier, generations, attempt, verified)).toBe(count);
  });
});

describe('a pattern', () => {
  it.each<[string, string, readonly string[], boolean]>([
    ['that names a file', 'a.dat', ['a.dat'], true],
    ['that names a directory without saying so', 'out', ['out/a.dat'], true],
    ['that names a directory', 'out/', ['out/deep/a.dat'], true],
    ['with a wildcard', '*.dat', ['b', 'a.dat'], true],
    ['that names another file', 'a.dat', ['a.dat.bak', 'x/a.dat'], false],
    ['that names a directory which is a file', 'out/', ['out'], false],
    ['with a wildcard of another level', '*.dat', ['out/a.dat'], false],
  ])('%s is matched only by what it means', (_, pattern, paths, matched) => {
    expect(unmatched([pattern], paths)).toEqual(matched ? [] : [pattern]);
  });

  it('is matched by a file that another pattern matches too', () => {
    expect(unmatched(['a.dat', '*.dat', 'b'], ['a.dat'])).toEqual(['b']);
  });
});
