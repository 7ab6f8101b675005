// What a resume loses of results, out of records alone.
import { expect, it } from 'vitest';
import {
  behindOf,
  lackingAfter,
  leftOf,
  namesOf,
  stillLacking,
  withPartials,
} from '../../../src/model/checkpoint/lacking.ts';
import type { Generation } from '../../../src/model/format/records.ts';

const generation = (facts: Partial<Generation>): Generation => ({
  attempt: 2,
  generation: 1,
  at: '2026-11-21T00:00:00.000Z',
  members: [],
  companions: [],
  ...facts,
});

it('a set is not ahead of what it brings back as a companion', () => {
  const companions = [{ path: 'log', size: 1, mode: 0o644, segments: [] }];
  const behind = ['log', 'traj'].map((path) => ({ path, open: true }));
  expect(behindOf(generation({ behind, companions })).map(({ path }) => path)).toEqual(['traj']);
  expect(behindOf(generation({}))).toEqual([]);
});

it('what was lost once stays lost in every set after it', () => {
  const lacking = [{ path: 'traj', open: true, attempt: 1 }];
  const lost = [
    { path: 'traj', open: false },
    { path: 'frame', open: false },
  ];
  expect(lackingAfter(generation({ lacking }), lost)).toEqual([
    ...lacking,
    { path: 'frame', open: false, attempt: 2 },
  ]);
});

it('of a result that lacked a closed file, and then one that was open, the open one counts', () => {
  const lacking = [{ path: 'traj', open: false, attempt: 1 }];
  expect(lackingAfter(generation({ lacking }), [{ path: 'traj', open: true }])).toEqual([
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
  expect(still.map((one) => leftOf(one).why.split(': ')[1])).toEqual([
    'it was still open when that one ended',
    'it was not stored yet when that one ended',
    'it was not stored yet when that one ended',
  ]);
});

it('names those that are many by their first ten', () => {
  const many = Array.from({ length: 12 }, (_, n) => ({ path: `f${n}`, open: n === 0, attempt: 1 }));
  expect(namesOf(many)).toBe('f0 (open), f1, f2, f3, f4, f5, f6, f7, f8, f9, 2 more');
});

it('what a death left stands beside what it was of, and no other attempt’s', () => {
  const lacking = ['traj', 'frame'].map((path) => ({ path, open: path === 'traj', attempt: 2 }));
  const partial = (path: string, attempt: number): { path: string; attempt: number; key: string } => ({
    path,
    attempt,
    key: `${path}.0.partial-${attempt}`,
  });
  const found = withPartials(lacking, [partial('traj', 2), partial('traj', 3), partial('frame', 1)]);
  expect(namesOf(found)).toBe('traj (open): traj.0.partial-2, frame');
  expect(found.map((one) => leftOf(one).why)).toEqual([
    'what attempt 2 had written to it is only in traj.0.partial-2: it was still open when that one ended',
    'what attempt 2 had written to it is lost: it was not stored yet when that one ended',
  ]);
  expect(withPartials(found, [])).toEqual(found);
});
