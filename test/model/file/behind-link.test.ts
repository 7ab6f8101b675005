import { describe, expect, test } from 'vitest';
import { leadsToUndeclared, lostBehindLinks, TO_STORE } from '../../../src/model/file/behind-link.ts';
import { compileManifest, type ManifestPatterns } from '../../../src/model/file/manifest.ts';

const manifestOf = (patterns: Partial<ManifestPatterns>): ReturnType<typeof compileManifest> =>
  compileManifest({
    results: [],
    checkpoints: [],
    inputs: [],
    companions: [],
    exclude: [],
    newest: undefined,
    ...patterns,
  });

describe('a file behind a link to a directory is', () => {
  test.each<[string, Partial<ManifestPatterns>, string, string | undefined, boolean]>([
    ['stored, if its real path is declared', { results: ['*/x'] }, 'latest/x', 'step-7/x', false],
    ['lost, if its real path is not', { results: ['step*/x'] }, 'step2/x', 'real/x', true],
    ['lost outside', { results: ['*/x'] }, 'data/x', undefined, true],
    ['not declared', { results: ['*/x'] }, 'data/y', undefined, false],
    ['an input only', { inputs: ['*/x'] }, 'data/x', undefined, false],
    ['excluded by its path', { results: ['*/x'], exclude: ['data/*'] }, 'data/x', undefined, false],
    ['excluded by its real path', { results: ['*/x'], exclude: ['old/**'] }, 'new/x', 'old/x', false],
    ['of capture', { results: ['**'] }, 'self/.capture/lock', '.capture/lock', false],
    ['lost, if its name is expected', { results: ['out/x', 'v*/x'] }, 'out/x', 'v2/x', true],
    ['lost, with another role', { results: ['a/*'], checkpoints: ['b/*'] }, 'a/x', 'b/x', true],
    ['a companion', { companions: ['log/*'] }, 'log/x', 'elsewhere/x', true],
  ])('%s', (_, patterns, path, real, isLost) => {
    expect(lostBehindLinks(manifestOf(patterns), TO_STORE)(path, real)).toBe(isLost);
  });

  test('not of this role', () => {
    const manifest = manifestOf({ results: ['*/x'] });
    expect(lostBehindLinks(manifest, ['checkpoint'])('data/x', undefined)).toBe(false);
  });
});

test.each<[string, Partial<ManifestPatterns>, string, boolean]>([
  ['an undeclared file', { results: ['out'] }, 'out.1', true],
  ['a declared file', { results: ['out', 'out.*'] }, 'out.1', false],
  ['an undeclared directory', { checkpoints: ['out*'] }, 'v1', true],
  ['a directory that may hold declared files', { results: ['out', 'v*/x'] }, 'v1', false],
])('a stored link to %s', (_, patterns, real, isSo) => {
  expect(leadsToUndeclared(manifestOf(patterns), 'out', real)).toBe(isSo);
});
