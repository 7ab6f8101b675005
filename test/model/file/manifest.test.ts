import fc from 'fast-check';
import picomatch from 'picomatch';
import { describe, expect, it } from 'vitest';
import { compileManifest, NO_ROLES } from '../../../src/model/file/manifest.ts';
import { ancestorsOf } from '../../../src/model/path.ts';
import type { ManifestPatterns } from '../../../src/model/file/manifest.ts';

const NONE: ManifestPatterns = {
  results: [],
  checkpoints: [],
  inputs: [],
  companions: [],
  exclude: [],
  newest: undefined,
};
const manifestOf = (patterns: Partial<ManifestPatterns>) => compileManifest({ ...NONE, ...patterns });
const isResult = (pattern: string, path: string) => manifestOf({ results: [pattern] }).rolesOf(path).result;

describe('a pattern', () => {
  it.each([
    ['r.dat', 'r.dat', true],
    ['r.dat', 'out/r.dat', false],
    ['r.dat', 'r.dat2', false],
    ['out', 'out/a/b', true],
    ['out/', 'out/a/b', true],
    ['out/', 'out', false],
    ['out/', 'outer/a', false],
    ['*.dat', 'r.dat', true],
    ['*.dat', 'out/r.dat', false],
    ['*.dat', '.hidden.dat', true],
    ['**', 'a/b/.c', true],
    ['**/*.dat', 'r.dat', true],
    ['out/**/r.dat', 'out/a/b/r.dat', true],
    ['frames/*/', 'frames/one/a/b', true],
    ['frames/*/', 'frames/one', false],
    ['r[0-9].dat', 'r7.dat', true],
    ['{a,b}/r.dat', 'b/r.dat', true],
    ['a?b', 'a/b', false],
    ['+(a/)r.dat', 'a/a/a/r.dat', true],
    ['r\\[1\\].dat', 'r[1].dat', true],
    ['\\@list', '@list', true],
    ['!keep', '!keep', true],
    ['a[b', 'a[b', true],
    ['**', 'two\nlines', true],
    ['*.dat', 'two\nlines.dat', true],
    ['*', '\udcff\udc80', true],
    ['constructor', 'constructor', true],
    ['*.dat', 'constructor', false],
  ])('%j against %j is %j', (pattern, path, expected) => {
    expect(isResult(pattern, path)).toBe(expected);
  });
});

describe('the manifest', () => {
  it('gives a file every role that it was declared for', () => {
    const manifest = manifestOf({
      results: ['a*'],
      checkpoints: ['ab'],
      inputs: ['ab'],
      companions: ['ab/'],
    });
    expect(manifest.rolesOf('ab')).toEqual({ result: true, checkpoint: true, input: true, companion: false });
    expect(manifest.rolesOf('b')).toEqual(NO_ROLES);
    expect(manifest.wants('ab')).toBe(true);
    expect(manifest.wants('b')).toBe(false);
  });

  it('gives no role to what is excluded, to its own directory, or to a store inside the work directory', () => {
    const manifest = manifestOf({
      results: ['**'],
      exclude: ['tmp', '*.log'],
      skip: ['deep/store', 'run[1]*'],
    });
    for (const path of ['tmp/a', 'x.log', '.capture/lock', 'deep/store/r.dat.0', 'run[1]*/r.dat.0']) {
      expect(manifest.rolesOf(path)).toEqual(NO_ROLES);
      expect(manifest.wants(path)).toBe(false);
    }
    for (const path of ['deep/storefront', 'run1', 'run1x/r.dat']) expect(manifest.wants(path)).toBe(true);
    for (const dir of ['tmp', 'tmp/a', '.capture', 'deep/store']) expect(manifest.canHold(dir)).toBe(false);
    expect(manifest.canHold('deep')).toBe(true);
  });

  it('knows which files are expected by name', () => {
    const manifest = manifestOf({
      results: ['r.dat', 'out/', '*.x'],
      checkpoints: ['a/b'],
      inputs: ['\\@in'],
      companions: ['md.log', '*.xtc'],
    });
    expect(manifest.exact).toEqual({
      results: ['r.dat'],
      checkpoints: ['a/b'],
      inputs: ['@in'],
      companions: ['md.log'],
    });
  });

  it("finds the first pattern of the user's order that matches", () => {
    const manifest = manifestOf({ checkpoints: ['*.chk', 'k.chk', 'd/', 'd/e', '**/e'] });
    expect(
      ['k.chk', 'd/x', 'd/e', 'z/e', 'none'].map((path) => manifest.matchIndex('checkpoints', path)),
    ).toEqual([0, 2, 2, 4, -1]);
  });

  it.each([
    ['out/r.dat', ['', 'out', 'out/r.dat'], ['other', 'out/deep']],
    ['out/', ['', 'out', 'out/a/b'], ['other']],
    ['*.dat', [''], ['a', 'a/b']],
    ['a/*/r.dat', ['', 'a', 'a/b'], ['b', 'a/b/c']],
    ['**/r.dat', ['', 'a', 'a/b/c'], []],
    ['{a,b/c}/r.dat', ['', 'a', 'b', 'b/c'], ['a/b/c']],
    ['+(a/)r.dat', ['', 'a', 'a/a', 'a/a/a/a'], []],
  ])('enters for %j only directories that can hold a match', (pattern, entered, left) => {
    const manifest = manifestOf({ results: [pattern] });
    for (const dir of entered) expect([dir, manifest.canHold(dir)]).toEqual([dir, true]);
    for (const dir of left) expect([dir, manifest.canHold(dir)]).toEqual([dir, false]);
  });

  it('enters nothing when nothing is declared', () => {
    expect(manifestOf({}).canHold('')).toBe(false);
  });
});

const component = fc
  .stringMatching(/^[ab.*?[\]{},!()@\\]{1,4}$/)
  .filter((text) => text !== '.' && text !== '..');
const anyPattern = fc
  .array(component, { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join('/'))
  .filter(isGoodGlob);
const anyPath = fc
  .array(fc.constantFrom('a', 'b', 'ab', '.a', '(a)', 'a[b'), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join('/'));

function isGoodGlob(text: string): boolean {
  try {
    picomatch.makeRe(text, { nonegate: true, debug: true });
    return true;
  } catch {
    return false;
  }
}

describe('for any patterns', () => {
  it('every directory above a match can hold it', () => {
    fc.assert(
      fc.property(fc.array(anyPattern, { maxLength: 4 }), anyPath, (results, path) => {
        const manifest = manifestOf({ results });
        if (!manifest.wants(path)) return;
        for (const dir of ancestorsOf(path)) expect(manifest.canHold(dir)).toBe(true);
      }),
      { numRuns: 3000 },
    );
  });

  it('the look-up of names agrees with asking each pattern alone', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(anyPattern, anyPath), { maxLength: 8 }), anyPath, (results, path) => {
        const expected = results.findIndex((pattern) => isResult(pattern, path));
        const manifest = manifestOf({ results });
        expect(manifest.matchIndex('results', path)).toBe(expected);
        expect(manifest.rolesOf(path).result).toBe(expected !== -1);
      }),
      { numRuns: 2000 },
    );
  });

  it('the order of the patterns changes no role', () => {
    fc.assert(
      fc.property(fc.array(anyPattern, { maxLength: 5 }), anyPath, (results, path) => {
        expect(manifestOf({ results }).rolesOf(path)).toEqual(
          manifestOf({ results: results.toReversed() }).rolesOf(path),
        );
      }),
    );
  });
});
