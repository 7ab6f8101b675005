// The documentation site (`npm run docs:site`), made by VitePress of the pages that stand in the repository. Nothing that
// the site shows may come from another host.
import fs from 'node:fs';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const HOME = 'docs/README.md';

/**
 * What the sidebar shows: each page once, and those of `docs/<page>/` below `docs/<page>.md`. `test/docs.test.ts` finds one
 * that is missing here.
 */
export const SIDEBAR: Readonly<Record<string, readonly string[]>> = {
  Start: inDocs('start/try install start/slurm start/spot start/kubernetes'),
  'How to': inDocs(
    'which-role which-role/gromacs which-role/lammps which-role/quantum-espresso which-role/openfoam',
    'which-role/pytorch which-role/r which-role/python which-role/pipelines',
    'doctor schedulers preemption preemption/slurm preemption/aws-batch preemption/second-by-second',
    'containers many-tasks several-machines after-the-run after-the-run/run-again after-the-run/report results',
    'metrics library coming-from',
  ),
  Reference: inDocs(
    'commands options options/put options/workdir-auto messages',
    'semantics semantics/checkpoints semantics/restarts semantics/end promises fault-matrix limits',
    'servers stores notice-sources object-layout object-layout/records object-layout/resources',
  ),
  Explanation: inDocs('compared cost security encryption'),
  'For developers': [
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    ...inDocs(
      'dev/performance dev/performance/one-run dev/performance/results dev/performance/arrays dev/performance/figures',
      'dev/facts dev/simulator',
    ),
  ],
  Decisions: fs
    .readdirSync(path.join(ROOT, 'docs/dev/adr'))
    .toSorted()
    .map((name) => `docs/dev/adr/${name}`),
};

const SHOWN = new Set([HOME, ...Object.values(SIDEBAR).flat()]);
/** Files that pages link to and that are no pages: the site has a copy of each. */
const linked = new Set<string>();

function inDocs(...lines: readonly string[]): readonly string[] {
  return lines.flatMap((names) => names.split(' ')).map((name) => `docs/${name}.md`);
}

/** The page below which this one stands. */
function parentOf(page: string, pages: readonly string[]): string | undefined {
  const parent = `${path.dirname(page)}.md`;
  return pages.includes(parent) ? parent : undefined;
}

/** What the sidebar shows at first: the others stand below one of these. */
export function topOf(pages: readonly string[]): readonly string[] {
  return pages.filter((page) => parentOf(page, pages) === undefined);
}

/** Where a page stands in the site. */
function placeOf(page: string): string {
  return page === HOME ? 'index.md' : page.replace(/^docs\//, '');
}

function titleOf(page: string): string {
  const [, title = page] = /^# (.*)$/m.exec(fs.readFileSync(path.join(ROOT, page), 'utf8')) ?? [];
  const short = title.replaceAll('`', '').replace('Five minutes: ', '');
  return short.charAt(0).toUpperCase() + short.slice(1);
}

function entryOf(page: string): { readonly text: string; readonly link: string } {
  return { text: titleOf(page), link: `/${placeOf(page).replace(/\.md$/, '')}` };
}

/** The anchor of a heading, as forges make it. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}

/** Where a link of a page leads in the site. One to a directory, or to a file that is not there, fails the build. */
function targetOf(link: string, page: string): string {
  if (/^(#|[a-z]+:)/.test(link)) return link;
  const { pathname, hash } = new URL(link, `file:///${page}`);
  const file = pathname.slice(1);
  if (SHOWN.has(file)) return `/${placeOf(file)}${hash}`;
  if (fs.statSync(path.join(ROOT, file), { throwIfNoEntry: false })?.isFile() !== true)
    throw new Error(`${page}: ${link} is no file`);
  linked.add(file);
  // Servers send a browser text that it shows.
  return `/files/${file}.txt`;
}

/** The tokens of markdown-it, as far as links need them. */
interface Token {
  readonly children: readonly Token[] | null;
  attrGet(name: string): string | null;
  attrSet(name: string, value: string): void;
}
interface State {
  readonly tokens: readonly Token[];
  readonly env: { readonly realPath?: string; readonly path: string };
}
interface Markdown {
  readonly core: { readonly ruler: { push(name: string, rule: (state: State) => void): void } };
  readonly renderer: { readonly rules: Record<string, unknown> };
  render(source: string, env: object): string;
}

function leadLinks({ tokens, env }: State): void {
  const page = path.relative(ROOT, env.realPath ?? env.path);
  for (const token of tokens.flatMap(({ children }) => children ?? [])) {
    const link = token.attrGet('href');
    if (link !== null) token.attrSet('href', targetOf(link, page));
  }
}

/** Code and tables are wide: the page takes the room between the sidebar and the outline. */
const STYLE = `
.VPDoc.has-aside .content-container.content-container { max-width: none; }
.vp-doc [class*='language-'] code { font-size: 13px; }
@media (min-width: 1280px) { .VPDoc > .container > .content.content { padding-right: 0; padding-left: 0; } }
@media (max-width: 639px) { .vp-doc th, .vp-doc td { padding: 6px 8px; } }
`;

const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  readonly version: string;
};

export default {
  title: 'capture',
  description: 'Keeps what the tasks of a job array make, on machines that can vanish at any moment.',
  srcDir: ROOT,
  srcExclude: ['!(docs)/**/*.md', 'README.md', 'SECURITY.md'],
  outDir: path.join(ROOT, 'release/site'),
  cacheDir: path.join(ROOT, 'packaging/site/node_modules/.cache'),
  rewrites: placeOf,
  markdown: {
    anchor: { slugify: anchorOf },
    config: ({ core, renderer: { rules } }: Markdown): void => {
      core.ruler.push('links', leadLinks);
      // Indented code, too, scrolls in a box of its own.
      rules['code_block'] = rules['fence'];
    },
  },
  buildEnd: ({ outDir }: { readonly outDir: string }): void => {
    for (const file of linked) {
      const copy = path.join(outDir, 'files', `${file}.txt`);
      fs.mkdirSync(path.dirname(copy), { recursive: true });
      fs.copyFileSync(path.join(ROOT, file), copy);
    }
  },
  // No icon: a browser asks for none.
  head: [
    ['link', { rel: 'icon', href: 'data:,' }],
    ['style', {}, STYLE],
  ],
  themeConfig: {
    search: {
      provider: 'local',
      options: {
        // What has changed would hide the page that explains it.
        _render: (source: string, env: { readonly relativePath: string }, markdown: Markdown): string =>
          env.relativePath === 'CHANGELOG.md' ? '' : markdown.render(source, env),
        // All words, as they are spelled: `skip-done` is not `one`.
        miniSearch: { searchOptions: { combineWith: 'AND', fuzzy: false } },
      },
    },
    nav: [{ text: version, link: '/CHANGELOG' }],
    outline: [2, 3],
    sidebar: Object.entries(SIDEBAR).map(([text, pages]) => ({
      text,
      collapsed: text === 'Decisions',
      items: topOf(pages).map((page) => {
        const below = pages.filter((other) => parentOf(other, pages) === page);
        return { ...entryOf(page), ...(below.length > 0 && { collapsed: true, items: below.map(entryOf) }) };
      }),
    })),
  },
};
