// What docs/ promise is there: the tests that the pages name, the events of JSON lines, and the messages of a run.
import fs from 'node:fs';
import { expect, it } from 'vitest';
import * as z from 'zod';
import { anchorOf, SIDEBAR, topOf } from '../packaging/site/.vitepress/config.ts';
import { statusesOf } from '../src/cli/help.ts';
import { RUN_SPEC } from '../src/cli/run-spec.ts';
import { EXIT } from '../src/model/exit-status.ts';
import { EVENTS } from '../src/model/format/message-fields.ts';
import { recordSchema } from '../src/model/format/records.ts';
import { METRICS } from '../src/model/format/resources.ts';

const ROOT = new URL('..', import.meta.url);
const read = (path: string): string => fs.readFileSync(new URL(path, ROOT), 'utf8');
const TESTS = fs.readdirSync(new URL('test', ROOT), { recursive: true, encoding: 'utf8' });

/** The pages that people read, from the root of the project. */
const PAGES = [
  ...fs.readdirSync(ROOT),
  ...fs
    .readdirSync(new URL('docs', ROOT), { recursive: true, encoding: 'utf8' })
    .map((name) => `docs/${name}`),
].filter((path) => path.endsWith('.md'));

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

it('each link of what is installed leads to a file that is installed, too', () => {
  const { files } = JSON.parse(read('package.json')) as { readonly files: readonly string[] };
  // The archive has no sources.
  const installed = new Set(files.filter((file) => file !== 'dist' && file !== 'src'));
  const examples = fs.readdirSync(new URL('examples', ROOT), { recursive: true, encoding: 'utf8' });
  const pages = [...PAGES, ...examples.map((name) => `examples/${name}`)].filter(
    (path) => path.endsWith('.md') && installed.has(path.split('/')[0] ?? ''),
  );
  expect(pages).toContain('README.md');
  const left = pages.flatMap((path) =>
    [...read(path).matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g)]
      .map(([, to = '']) => new URL(to, new URL(path, 'file:///')).pathname)
      .filter((to) => !installed.has(to.split('/')[1] ?? ''))
      .map((to) => `${path}: ${to}`),
  );
  expect(left).toEqual([]);
});

it('each page of docs/ stands once in the sidebar of the site, whose home is docs/README.md', () => {
  const shown = Object.values(SIDEBAR).flat();
  expect(shown).toHaveLength(new Set(shown).size);
  const inDocs = PAGES.filter((path) => path.startsWith('docs/') && path !== 'docs/README.md');
  expect(shown.filter((path) => path.startsWith('docs/')).toSorted()).toEqual(inDocs.toSorted());
});

it('the sidebar shows at most twelve pages of a kind at first', () => {
  const { Decisions: _, ...kinds } = SIDEBAR;
  expect(Object.values(kinds).filter((pages) => topOf(pages).length > 12)).toEqual([]);
});

const linesOf = (page: string): number => read(page).split('\n').length - 1;

it('each page has at most 250 lines', () => {
  expect(PAGES.filter((page) => page !== 'CHANGELOG.md' && linesOf(page) > 250)).toEqual([]);
});

it('what is promised stays as short as it was on one page', () => {
  const pages = PAGES.filter((page) => /^docs\/semantics[./]/.test(page));
  expect(pages.length).toBeGreaterThan(3);
  expect(pages.map(linesOf).reduce((sum, lines) => sum + lines)).toBeLessThanOrEqual(622);
});

/** The rows of the table that begins with these words, without its head. */
function tableOf(page: string, head: string): readonly string[] {
  const lines = read(page).split('\n');
  const rows = lines.slice(lines.findIndex((line) => line.startsWith(head)) + 2);
  return rows.slice(
    0,
    rows.findIndex((line) => !line.startsWith('|')),
  );
}

const cellOf = (row: string): string => row.split('|')[1] ?? '';

/** The code in the first column. */
const namedIn = (rows: readonly string[]): readonly string[] =>
  rows.flatMap((row) => [...cellOf(row).matchAll(/`([^`]+)`/g)].map(([, name = '']) => name));

it('each event of a JSON line is explained, and no other', () => {
  expect(namedIn(tableOf('docs/messages.md', '| `event` | fields |')).toSorted()).toEqual(
    [...EVENTS].toSorted(),
  );
});

it('each exit status of capture is explained, and no other; those of a run also in its help', () => {
  const statuses = tableOf('docs/commands.md', '| status |').flatMap((row) =>
    (cellOf(row).match(/\d+/g) ?? []).map(Number),
  );
  expect(statuses).toEqual(Object.values(EXIT));
  expect(Object.keys(statusesOf(RUN_SPEC)).map(Number)).toEqual(
    statuses.filter((status) => status !== EXIT.ok),
  );
});

/** The paths of the fields of a record: `['end', 'status']`. */
function fieldsOf(schema: z.core.JSONSchema._JSONSchema, above: readonly string[] = []): readonly string[][] {
  if (typeof schema === 'boolean') return [];
  const items = Array.isArray(schema.items) ? [] : [schema.items ?? false];
  const inLists = [...items, ...(schema.anyOf ?? [])].flatMap((one) => fieldsOf(one, above));
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = [...above, name];
    return [path, ...fieldsOf(field, path)];
  });
  return [...inLists, ...own];
}

/** Where the page of records describes the fields of a field. */
function descriptionOf(above: readonly string[]): string {
  if (above.includes('resources') || above.includes('outOfMemory'))
    return read('docs/object-layout/resources.md').replaceAll(/^```.*?^```/gms, '');
  const page = read('docs/object-layout/records.md');
  const isFile = above.some((name) => ['results', 'partials', 'members'].includes(name));
  const heads = isFile ? ['A stored file'] : above.map((name) => `A generation's \`${name}\``);
  const bullets = heads.map((head) => page.split(`- **${head}**`)[1]?.split(/^(?:- |\n)/m)[0]);
  const row = tableOf('docs/object-layout/records.md', '| field |').find((line) =>
    namedIn([line]).includes(above[0] ?? ''),
  );
  return bullets.find((bullet) => bullet !== undefined) ?? row ?? '';
}

it('each field of a record is explained, and no other', () => {
  const fields = fieldsOf(z.toJSONSchema(recordSchema, { io: 'input' }));
  expect(fields.length).toBeGreaterThan(100);
  const named = namedIn(tableOf('docs/object-layout/records.md', '| field |'));
  const top = fields.filter(({ length }) => length === 1).flat();
  expect(named.toSorted()).toEqual([...top, 'sum'].toSorted());
  const below = fields.filter(({ length }) => length > 1);
  const isNamed = (path: readonly string[]): boolean =>
    new RegExp(`\`[^\`]*\\b${path.at(-1)}\\b[^\`]*\``).test(descriptionOf(path.slice(0, -1)));
  expect(below.filter((path) => !isNamed(path))).toEqual([]);
  const lines = namedIn(tableOf('docs/object-layout/resources.md', '| line of `series` |'));
  expect(lines.toSorted()).toEqual([...METRICS].toSorted());
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
