// What a resume loses of results, out of records alone.
import { describe, expect, it } from 'vitest';
import {
  resultsBehind,
  isStateStored,
  lackingAfter,
  lackingAsLeft,
  lackingNames,
  stillLacking,
  withPartials,
} from '../../../src/model/checkpoint/lacking.ts';
import type { Behind, Generation, Lacking, StoredFile } from '../../../src/model/format/records.ts';

const generation = (facts: Partial<Generation>): Generation => ({
  attempt: 2,
  generation: 1,
  at: '2026-11-21T00:00:00.000Z',
  members: [],
  companions: [],
  ...facts,
});

/** A state of a result that a set was ahead of: the n-th, written at that ns, of so many bytes. */
const state = (path: string, open: boolean, n = 1): Behind => ({ path, open, size: n, mtimeNs: `${n}` });

it('a set is not ahead of what it brings back as a companion', () => {
  const companions = [{ path: 'log', size: 1, mode: 0o644, segments: [] }];
  const behind = ['log', 'traj'].map((path) => state(path, true));
  expect(resultsBehind(generation({ behind, companions })).map(({ path }) => path)).toEqual(['traj']);
  expect(resultsBehind(generation({}))).toEqual([]);
});

it('what was lost once stays lost in every set after it', () => {
  const lacking = [{ path: 'traj', open: true, attempt: 1 }];
  const lost = [state('traj', false), state('frame', false)];
  expect(lackingAfter(generation({ lacking }), lost)).toEqual([
    ...lacking,
    { path: 'frame', open: false, attempt: 2 },
  ]);
});

it('of a result that lacked a closed file, and then one that was open, the open one counts', () => {
  const lacking = [{ path: 'traj', open: false, attempt: 1 }];
  expect(lackingAfter(generation({ lacking }), [state('traj', true)])).toEqual([
    { path: 'traj', open: true, attempt: 2 },
  ]);
});

it('a closed file that a later attempt stored lacks nothing, one that was open does', () => {
  const lacking = ['traj', 'frame', 'old', 'never'].map((path) => ({
    path,
    open: path === 'traj',
    attempt: 2,
  }));
  const storedBy = new Map([
    ['traj', 3],
    ['frame', 3],
    ['old', 2],
  ]);
  const still = stillLacking(lacking, (path) => storedBy.get(path));
  expect(still.map(({ path }) => path)).toEqual(['traj', 'old', 'never']);
  expect(still.map((one) => lackingAsLeft(one).why.split(': ')[1])).toEqual([
    'it was still open when that one ended',
    'it was not stored yet when that one ended',
    'it was not stored yet when that one ended',
  ]);
});

it('names those that are many by their first ten', () => {
  const many = Array.from({ length: 12 }, (_, n) => ({ path: `f${n}`, open: n === 0, attempt: 1 }));
  expect(lackingNames(many)).toBe('f0 (open), f1, f2, f3, f4, f5, f6, f7, f8, f9, 2 more');
});

describe('a stored object holds a state that a set of attempt 2 was ahead of', () => {
  const behind = { ...state('r', false, 10), over: ['p1'] };
  const stored = (attempt: number, n: number, push: string): StoredFile =>
    ({ path: 'r', attempt, push, size: n, mtimeNs: `${n}` }) as StoredFile;

  it.each([
    ['that very state', stored(2, 10, 'p2'), true],
    ['what the same attempt put there later, whatever its mtime', stored(2, 9, 'p2'), true],
    ['not what stood there before, whatever its mtime', stored(2, 11, 'p1'), false],
    ['not what stood there before, though its size and mtime are the same', stored(2, 10, 'p1'), false],
    ['what a later attempt put there, whatever its clock said', stored(3, 1, 'p2'), true],
    ['not what an earlier attempt put there, whatever its clock said', stored(1, 99, 'p2'), false],
  ])('when it is %s', (_, one, expected) => {
    expect(isStateStored(one, behind, 2)).toBe(expected);
  });

  it('only when it is that very state, if an older one might still come', () => {
    const { over: _, ...unsure } = behind;
    expect(isStateStored(stored(2, 11, 'p2'), unsure, 2)).toBe(false);
    expect(isStateStored(stored(2, 10, 'p2'), unsure, 2)).toBe(true);
  });

  it('never when it is an older one that is known, though a dead sidecar may have sent more', () => {
    const one = { ...behind, unsure: true };
    expect(isStateStored(stored(2, 10, 'p1'), one, 2)).toBe(false);
    expect(isStateStored(stored(2, 11, 'p2'), one, 2)).toBe(false);
    expect(isStateStored(stored(2, 10, 'p2'), one, 2)).toBe(true);
  });

  it('to the nanosecond, which no number holds', () => {
    const exact = { ...behind, over: undefined, mtimeNs: '1700000000000000001' };
    const one = { ...stored(2, 10, 'p2'), mtimeNs: '1700000000000000000' };
    expect(isStateStored(one, exact, 2)).toBe(false);
  });
});

describe('what an attempt left beside a result’s name', () => {
  const staged = (
    path: string,
    attempt: number,
    n = 1,
    key = `${path}.0.partial-${attempt}`,
  ): StoredFile => ({
    path,
    kind: 'file',
    key,
    push: key,
    attempt,
    md5: '0'.repeat(32),
    size: n,
    compressed: false,
    mtimeNs: `${n}`,
    mode: 0o644,
    suspect: true,
  });
  const lacks = (path: string, open = false): Lacking => ({ path, open, attempt: 2 });
  /** The first is what the set was ahead of, the second came later. */
  const [first, second] = [staged('r', 2, 1, 'r.0.partial-2'), staged('r', 2, 2, 'r.0.partial-2.~1~')];
  const followed = [{ ...state('r', false, 1), followed: true }];
  const whole = { ...lacks('r'), key: first.key, whole: true };

  it('stands beside what it was of, and no other attempt’s', () => {
    const lost = [state('traj', true), state('frame', false)];
    const partials = [staged('traj', 2), staged('traj', 3), staged('frame', 1)];
    const found = withPartials([lacks('traj', true), lacks('frame')], lost, { partials, isProof: true });
    expect(lackingNames(found)).toBe('traj (open): traj.0.partial-2, frame');
    expect(found.map((one) => lackingAsLeft(one).why)).toEqual([
      'what attempt 2 had written to it is only in traj.0.partial-2: it was still open when that one ended',
      'what attempt 2 had written to it is lost: it was not stored yet when that one ended',
    ]);
    expect(withPartials(found, lost, { partials: [], isProof: true })).toEqual(found);
  });

  it('is whole when it is the very state that a good set has followed', () => {
    expect(withPartials([lacks('r')], followed, { partials: [first], isProof: true })).toEqual([whole]);
  });

  it.each<[string, readonly Behind[], boolean]>([
    ['somebody may have died before the set', followed, false],
    ['the set did not follow it', [state('r', false, 1)], true],
    ['it is of another size', [{ ...state('r', false, 1), size: 2, followed: true }], true],
    ['it was written at another time', [{ ...state('r', false, 1), mtimeNs: '2', followed: true }], true],
  ])('is not known to be whole when %s', (_, lost, isProof) => {
    expect(withPartials([lacks('r')], lost, { partials: [first], isProof })).toEqual([
      { ...lacks('r'), key: first.key },
    ]);
  });

  it('is of two states the one that the set has followed, in whatever order they are found', () => {
    for (const partials of [
      [first, second],
      [second, first],
    ])
      expect(withPartials([lacks('r')], followed, { partials, isProof: true })).toEqual([whole]);
  });

  it('is of two states that no good set has followed the newest', () => {
    expect(withPartials([lacks('r')], followed, { partials: [first, second], isProof: false })).toEqual([
      { ...lacks('r'), key: second.key },
    ]);
  });

  it('stays what an earlier resume has found', () => {
    expect(withPartials([whole], followed, { partials: [second], isProof: true })).toEqual([whole]);
  });
});
