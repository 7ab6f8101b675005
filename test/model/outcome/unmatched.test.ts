import { describe, expect, it } from 'vitest';
import { unmatched } from '../../../src/model/outcome/unmatched.ts';

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
