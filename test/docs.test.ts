// The fault matrix names a test for each of its rows: each must be there, or the table promises what nobody tries.
import fs from 'node:fs';
import { expect, it } from 'vitest';

const ROOT = new URL('..', import.meta.url);
const read = (path: string): string => fs.readFileSync(new URL(path, ROOT), 'utf8');
const TESTS = fs.readdirSync(new URL('test', ROOT), { recursive: true, encoding: 'utf8' });

interface Named {
  readonly file: string;
  /** What stands between `...`, which is for the values of a table of cases. */
  readonly words: readonly string[];
}

/** The tests in the last column; `: title` alone belongs to the file that was named last. */
function namedTests(page: string): readonly Named[] {
  let file = '';
  const cells = page.split('\n').map((line) => /\|([^|]*)\|$/.exec(line)?.[1] ?? '');
  return cells.flatMap((cell) =>
    [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, name = '']) => {
      const [, named, title = ''] = /^([\w/-]+\.test\.ts)?(?::(.*))?$/.exec(name) ?? [];
      if (named === undefined && title === '') return [];
      file = named ?? file;
      return [
        {
          file,
          words: title
            .split('...')
            .map((part) => part.trim())
            .filter((part) => part !== ''),
        },
      ];
    }),
  );
}

it('each test that the fault matrix names is there', () => {
  const named = namedTests(read('docs/fault-matrix.md'));
  expect(named.length).toBeGreaterThan(40);
  const missing = named.filter(({ file, words }) => {
    const paths = TESTS.filter((path) => `/${path}`.endsWith(`/${file}`));
    return !paths.some((path) => words.every((part) => read(`test/${path}`).includes(part)));
  });
  expect(missing).toEqual([]);
});
