import { describe, expect, it } from 'vitest';
import { type Candidate, chooseMembers } from '../../../src/model/checkpoint/members.ts';
import { compileRotation } from '../../../src/model/checkpoint/rotation.ts';

const S = 1_000_000_000;
/** Files of one pattern, each modified so many seconds after the one before it. */
function files(pattern: string, paths: readonly string[], everyS = 0.001): readonly Candidate[] {
  const rotationOf = compileRotation(pattern);
  return paths.map((path, at) => ({
    path,
    mtimeNs: String(BigInt(Math.round((1 + at * everyS) * S))),
    pattern: 0,
    rotation: rotationOf(path),
  }));
}

const newest = (n: number | undefined, ...args: Parameters<typeof files>): readonly string[] =>
  chooseMembers(files(...args), n).members;

describe('the newest', () => {
  it('are so many directories, each with all its files', () => {
    const all = ['s1/a', 's2/a', 's3/a', 's3/b', 's2/b'];
    expect(newest(1, 's*/', all)).toEqual(['s2/a', 's2/b']);
    expect(newest(2, 's*/', all)).toEqual(['s2/a', 's3/a', 's3/b', 's2/b']);
    expect(newest(undefined, 's*/', all)).toHaveLength(5);
  });

  it('are counted for each pattern by itself', () => {
    const [a, b] = files('*', ['a', 'b']);
    const [c] = files('c', ['c']);
    if (a === undefined || b === undefined || c === undefined) throw new Error('three files');
    const all = [a, b, { ...c, mtimeNs: '0', pattern: 1 }];
    expect(chooseMembers(all, 1).members).toEqual(['b', 'c']);
  });

  it.each<
    [what: string, pattern: string, all: readonly string[], everyS: number, members: readonly string[]]
  >([
    ['one file each', 'melt.*.rst', ['melt.1.rst', 'melt.2.rst', 'melt.3.rst'], 1, ['melt.3.rst']],
    ['several files of one number', 'm.*', ['m.1.a', 'm.1.b', 'm.2.a', 'm.2.b'], 1, ['m.2.a', 'm.2.b']],
    ['ranks behind the step', 'ck.*', ['ck.1.0', 'ck.1.1', 'ck.2.0', 'ck.2.1'], 1, ['ck.2.0', 'ck.2.1']],
    ['ranks before the step', 'ck.*', ['ck.0.1', 'ck.1.1', 'ck.0.2', 'ck.1.2'], 1, ['ck.0.2', 'ck.1.2']],
    ['ranks, of which the next step has one', 'ck.*', ['ck.1.0', 'ck.1.1', 'ck.2.0'], 60, ['ck.2.0']],
    [
      'a file beside the ranks',
      'ck.*',
      ['ck.1.0', 'ck.1.1', 'ck.1.meta'],
      0.1,
      ['ck.1.0', 'ck.1.1', 'ck.1.meta'],
    ],
    ['times of the day', 'ck-*', ['ck-06-05-58', 'ck-07-10-59', 'ck-07-15-57'], 60, ['ck-07-15-57']],
    ['dates', 'ck-*', ['ck-2026-11-23', 'ck-2026-12-01', 'ck-2026-12-08'], 60, ['ck-2026-12-08']],
    ['a number that never changes', 'ckpt_*', ['ckpt_1.h5', 'ckpt_2.h5'], 600, ['ckpt_2.h5']],
    [
      'the ranks of the first step',
      'ck.*',
      ['ck.1.0', 'ck.1.1', 'ck.1.2'],
      0.1,
      ['ck.1.0', 'ck.1.1', 'ck.1.2'],
    ],
    ['directories', 'ck-*/', ['ck-1-0/a', 'ck-1-1/a', 'ck-2-0/a', 'ck-2-1/a'], 1, ['ck-2-0/a', 'ck-2-1/a']],
  ])('counts checkpoints, not files: %s', (_, pattern, all, everyS, members) => {
    expect(newest(1, pattern, all, everyS)).toEqual(members);
  });

  it('are all, and said to be untold, where nothing tells whether they are one checkpoint or several', () => {
    const all = ['ckpt_1.h5', 'ckpt_2.h5', 'ckpt_3.h5'];
    const chosen = chooseMembers(files('ckpt_*', all, 1), 2);
    expect(chosen.members).toEqual(all);
    expect(chosen.ambiguous.map(({ path }) => path)).toEqual(all);
    expect(chooseMembers(files('ckpt_*', all.slice(1), 1), 2).ambiguous).toEqual([]);
    expect(chooseMembers(files('ckpt_*.h5', all, 1), 2).ambiguous).toEqual([]);
  });
});
