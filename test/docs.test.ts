// What docs/ promise is there: the tests that the pages name, the events of JSON lines, and the messages of a run.
import fs from 'node:fs';
import { expect, it } from 'vitest';
import { anchorOf, SIDEBAR } from '../packaging/site/.vitepress/config.ts';
import { EVENTS } from '../src/model/format/message-fields.ts';

const ROOT = new URL('..', import.meta.url);
const read = (path: string): string => fs.readFileSync(new URL(path, ROOT), 'utf8');
const TESTS = fs.readdirSync(new URL('test', ROOT), { recursive: true, encoding: 'utf8' });

/** The pages that people read, from the root of the project. */
const PAGES = ['', 'docs/', 'docs/start/', 'docs/dev/', 'docs/dev/adr/'].flatMap((dir) =>
  fs
    .readdirSync(new URL(`./${dir}`, ROOT))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${dir}${name}`),
);

interface Named {
  readonly file: string;
  /** What stands between `...`, which is for the values of a table of cases. */
  readonly words: readonly string[];
}

const wordsOf = (title: string): readonly string[] =>
  title
    .split('...')
    .map((part) => part.trim())
    .filter((part) => part !== '');

function missingOf(named: readonly Named[]): readonly Named[] {
  return named.filter(({ file, words }) => {
    const paths = TESTS.filter((path) => `/${path}`.endsWith(`/${file}`));
    return !paths.some((path) => words.every((part) => read(`test/${path}`).includes(part)));
  });
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
      return [{ file, words: wordsOf(title) }];
    }),
  );
}

/** Folders of test/ that are of no room: whole runs, what they need, and what is not ours. */
const NO_ROOMS = new Set([
  'packaging',
  'licences',
  'bench',
  'e2e',
  'examples',
  'real',
  's3-server',
  'simulate',
  'support',
]);

it('the tests of a room stand in the folder of its name', () => {
  const folders = TESTS.filter((path) => path.endsWith('.test.ts') && path.includes('/'))
    .map((path) => path.slice(0, path.lastIndexOf('/')))
    .filter((folder) => !NO_ROOMS.has(folder.split('/')[0] ?? ''));
  expect(folders.filter((folder) => !fs.existsSync(new URL(`src/${folder}`, ROOT)))).toEqual([]);
});

it('each test that the fault matrix names is there', () => {
  const named = namedTests(read('docs/fault-matrix.md'));
  expect(named.length).toBeGreaterThan(40);
  expect(missingOf(named)).toEqual([]);
});

it('each test that another page names is there', () => {
  const named = PAGES.flatMap((path) => {
    const page = read(path).replaceAll(/\s+/g, ' ');
    return [...page.matchAll(/`(?:test\/)?([\w/-]+\.test\.ts)(?:: ([^`]*))?`/g)].map(
      ([, file = '', title = '']) => ({
        file,
        words: wordsOf(title),
      }),
    );
  });
  expect(named.length).toBeGreaterThan(100);
  expect(missingOf(named)).toEqual([]);
});

const anchorsOf = (page: string): readonly string[] =>
  [...page.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) => anchorOf(heading));

it('each link leads to a page that is there, and to a heading of it', () => {
  const broken = PAGES.flatMap((path) =>
    [...read(path).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(
      ([link, to = '', anchor]) => {
        const url = new URL(to, new URL(path, ROOT));
        if (!fs.existsSync(url)) return [`${path}: ${link}`];
        if (anchor === undefined) return [];
        const page = fs.readFileSync(to === '' ? new URL(path, ROOT) : url, 'utf8');
        return anchorsOf(page).includes(anchor) ? [] : [`${path}: ${link}`];
      },
    ),
  );
  expect(broken).toEqual([]);
});

it('each page of docs/ stands once in the sidebar of the site, whose home is docs/README.md', () => {
  const shown = Object.values(SIDEBAR).flat();
  expect(shown).toHaveLength(new Set(shown).size);
  const inDocs = PAGES.filter((path) => path.startsWith('docs/') && path !== 'docs/README.md');
  expect(shown.filter((path) => path.startsWith('docs/')).toSorted()).toEqual(inDocs.toSorted());
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
  const said = [...sources, 'src/sidecar/sidecar.ts', 'src/sidecar/main.ts'].flatMap((path) =>
    messagesOf(read(path)),
  );
  expect(said.length).toBeGreaterThan(60);
  expect(said.filter((words) => !page.includes(words))).toEqual([]);
});
