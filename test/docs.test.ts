// What docs/ promise is there: the tests that the fault matrix names for its rows, the events of JSON lines, and the
// messages of a run.
import fs from 'node:fs';
import { expect, it } from 'vitest';
import { EVENTS } from '../src/core/message-fields.ts';

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

it('each event of a JSON line is explained, and no other', () => {
  const rows = read('docs/messages.md').split('| `event` | fields | |')[1] ?? '';
  const cells = [...rows.matchAll(/^\|([^|]*)\|/gm)].map(([, cell = '']) => cell);
  const named = cells.flatMap((cell) => [...cell.matchAll(/`([a-z-]+)`/g)].map(([, name = '']) => name));
  expect(named.toSorted()).toEqual([...EVENTS].toSorted());
});

/** Of each text that a run says at info or above, the first words that do not change. */
function messagesOf(source: string): readonly string[] {
  const said = source.matchAll(/(?:\blog\.(?:info|warn|error)|\bsay|\.warn)\(\s*(['`])(.*?)\1/gs);
  return [...said].map(([, , text = '']) => {
    const parts = text.split(/\$\{[^}]*\}/).map((part) => part.replaceAll(/^\W+/g, '').split(/\s+/));
    const longest = parts.reduce((best, part) => (part.length > best.length ? part : best), []);
    return longest.slice(0, 4).join(' ').trim();
  });
}

it('each message of a run at info or above is explained', () => {
  const page = read('docs/messages.md').replaceAll(/\s+/g, ' ');
  const sources = ['src/sidecar', 'src/launch'].flatMap((dir) =>
    fs
      .readdirSync(new URL(dir, ROOT), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `${dir}/${name}`),
  );
  const said = [...sources, 'src/sidecar.ts', 'src/sidecar-main.ts'].flatMap((path) =>
    messagesOf(read(path)),
  );
  expect(said.length).toBeGreaterThan(60);
  expect(said.filter((words) => !page.includes(words))).toEqual([]);
});
