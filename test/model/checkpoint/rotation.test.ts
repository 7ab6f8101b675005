import { describe, expect, it } from 'vitest';
import { chooseMembers } from '../../../src/model/checkpoint/members.ts';
import { compileRotation, namesDirectories } from '../../../src/model/checkpoint/rotation.ts';

describe('what the last star of a pattern names', () => {
  it.each([
    ['step-*/**', 'step-7/a/b', 'directory', 'step-7', '*/a/b'],
    ['*/**', '7/a', 'directory', '7', '*/a'],
    ['*', 'ck-7', 'file', 'ck-7', 'ck-*'],
    ['step-*/*', 'step-7/a', 'directory', 'step-7', '*/a'],
    ['ck-*/', 'ck-7/a', 'directory', 'ck-7', '*/a'],
    ['[0-9]*/**', '100/U', 'directory', '100', '*/U'],
    ['processor*/[0-9]*/**', 'processor3/100/U', 'directory', '100', 'processor3/*/U'],
    ['step-*/model.pt', 'step-7/model.pt', 'directory', 'step-7', '*/model.pt'],
    ['melt.*.rst', 'melt.100.rst', 'file', 'melt.100.rst', 'melt.*.rst'],
    ['out/ckpt_*.h5', 'out/ckpt_000120.h5', 'file', 'ckpt_000120.h5', 'out/ckpt_*.h5'],
    ['*.chk', 'a.chk', 'file', 'a.chk', 'a.chk'],
    ['ck-*', 'ck-2026-11-21', 'file', 'ck-2026-11-21', 'ck-2026-11-21'],
    ['**/*.pt', 'a/b/m7.pt', 'file', 'm7.pt', 'a/b/m*.pt'],
    ['**/step-*/**', 'a/step-7/x', 'file', 'x', 'a/step-7/x'],
  ])('%s: %s is a %s, %s', (pattern, path, kind, unit, kin) => {
    expect(compileRotation(pattern)(path)).toEqual({ kind, unit, kin });
    expect(namesDirectories(pattern)).toBe(kind === 'directory');
  });

  it.each(['state.chk', 'state/', 'out/state'])('is nothing in %s', (pattern) => {
    expect(compileRotation(pattern)('state/a')).toBeUndefined();
  });
});

describe('the newest', () => {
  const file = (path: string, mtime: number, unit = path) => ({
    path,
    mtimeNs: `${mtime}`,
    pattern: 0,
    unit,
  });

  it('are so many directories, each with all its files', () => {
    const all = [
      file('s1/a', 1, 's1'),
      file('s2/a', 2, 's2'),
      file('s2/b', 9, 's2'),
      file('s3/a', 3, 's3'),
      file('s3/b', 4, 's3'),
    ];
    expect(chooseMembers(all, 1)).toEqual(['s2/a', 's2/b']);
    expect(chooseMembers(all, 2)).toEqual(['s2/a', 's2/b', 's3/a', 's3/b']);
    expect(chooseMembers(all, undefined)).toHaveLength(5);
  });

  it('are counted for each pattern by itself', () => {
    const all = [file('a', 1), file('b', 2), { ...file('c', 0), pattern: 1 }];
    expect(chooseMembers(all, 1)).toEqual(['b', 'c']);
  });
});
