import { describe, expect, it } from 'vitest';
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
    expect(compileRotation(pattern)(path)).toMatchObject({ kind, unit, kin });
    expect(namesDirectories(pattern)).toBe(kind === 'directory');
  });

  it.each(['state.chk', 'state/', 'out/state'])('is nothing in %s', (pattern) => {
    expect(compileRotation(pattern)('state/a')).toBeUndefined();
  });
});

describe('the numbers of a unit', () => {
  it.each([
    ['ck.*', 'ck.14.0', ['14', '0'], 'ck.*.*'],
    ['ckpt2_*.h5', 'ckpt2_7.h5', ['7'], 'ckpt2_*.h5'],
    ['ckpt_*', 'ckpt_7.h5', ['7', '5'], 'ckpt_*.h*'],
    ['step-*-of-9/', 'step-7-of-9/a1', ['7'], 'step-*-of-9'],
    ['processor*/[0-9]*/**', 'processor3/100/U1', ['100'], '*'],
    ['*.chk', 'a.chk', [], 'a.chk'],
  ])('are those that stand where %s has its last star: %s', (pattern, path, numbers, shape) => {
    expect(compileRotation(pattern)(path)).toMatchObject({ numbers, shape });
  });
});
