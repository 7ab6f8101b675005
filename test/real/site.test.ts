// The documentation site, built from its own packages as `npm run docs:site` does, and opened in a real Chromium: all its
// pages are found, no link of it is dead, and it asks no other host for anything.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SIDEBAR } from '../../packaging/site/.vitepress/config.ts';
import { CHROMIUM, type Chromium, startChromium } from './chromium.ts';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};
/** What a page loads by itself; a link that a reader may follow is none. */
const LOADED = [
  /<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\s(?:src|srcset|data)="([^"]*)"/g,
  /<link\b[^>]*\shref="([^"]*)"/g,
  /url\(["']?([^"')]*)/g,
  /@import\s+["']([^"']*)/g,
  /\bimport\(?\s*["']([^"']*)/g,
  /\bfrom\s*["']([^"']*)/g,
];
/** For icons of links to social networks. The site has none of these links. */
const NEVER_ASKED = 'https://api.iconify.design/simple-icons/';

let dir: string;
let site: string;

beforeAll(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-site-'));
  site = path.join(dir, 'site');
  execFileSync('npm', ['run', '--silent', 'docs:site', '--', '--outDir', site], { stdio: 'pipe' });
});
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const filesOf = (...endings: readonly string[]): readonly string[] =>
  fs
    .readdirSync(site, { recursive: true, encoding: 'utf8' })
    .filter((name) => endings.includes(path.extname(name)));
const read = (name: string): string => fs.readFileSync(path.join(site, name), 'utf8');
const matches = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, found = '']) => found);

it('has each page of the sidebar, and links each one once there', () => {
  const pages = Object.values(SIDEBAR)
    .flat()
    .map((page) => page.replace(/^docs\//, '').replace(/\.md$/, '.html'));
  const [, sidebar = ''] = /<nav[^>]* id="VPSidebarNav".*?>(.*?)<\/nav>/s.exec(read('index.html')) ?? [];
  expect(matches(sidebar, /href="\/([^"]*)"/g)).toEqual(pages);
  expect(filesOf('.html').toSorted()).toEqual([...pages, 'index.html', '404.html'].toSorted());
});

it('leads each link to a page, a heading or a file that is there', () => {
  const links = filesOf('.html').flatMap((page) =>
    matches(read(page), /<a\b[^>]*\shref="([^"]*)"/g)
      .filter((link) => !/^https?:/.test(link))
      .map((link) => ({ page, link, to: new URL(link, `http://site/${page}`) })),
  );
  expect(links.length).toBeGreaterThan(1000);
  const dead = links.filter(({ to: { pathname, hash } }) => {
    const file = pathname === '/' ? 'index.html' : decodeURI(pathname.slice(1));
    if (!fs.existsSync(path.join(site, file))) return true;
    return hash !== '' && !read(file).includes(`id="${decodeURIComponent(hash.slice(1))}"`);
  });
  expect(dead.map(({ page, link }) => `${page}: ${link}`)).toEqual([]);
});

it('loads nothing from other hosts', () => {
  const loaded = filesOf('.html', '.js', '.css').flatMap((name) =>
    LOADED.flatMap((pattern) => matches(read(name), pattern)).map((url) => `${name}: ${url}`),
  );
  expect(loaded.length).toBeGreaterThan(500);
  const others = loaded.filter((line) => /: (?:https?:)?\/\//.test(line) && !line.includes(NEVER_ASKED));
  expect(others).toEqual([]);
});

describe.skipIf(CHROMIUM === undefined)('in Chromium', () => {
  let chromium: Chromium;
  let server: http.Server;
  let url: string;

  beforeAll(async () => {
    chromium = await startChromium();
    server = http.createServer(({ url: asked = '/' }, answer) => {
      const { pathname } = new URL(asked, 'http://site');
      const file = path.join(site, pathname === '/' ? 'index.html' : pathname);
      if (!fs.existsSync(file)) return void answer.writeHead(404).end();
      answer.writeHead(200, { 'content-type': TYPES[path.extname(file)] ?? 'application/octet-stream' });
      return void fs.createReadStream(file).pipe(answer);
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  afterAll(async () => {
    await chromium.close();
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
  });

  it.each([
    ['a desktop', { width: 1280, height: 900 }, /^(index|semantics|ARCHITECTURE)\.html$/],
    ['a phone in the dark', { width: 390, height: 844, dark: true }, /^(?!404)/],
  ])('no page is wider than %s, says an error, or asks another host', async (_, look, shown) => {
    for (const name of filesOf('.html').filter((page) => shown.test(page))) {
      const page = await chromium.open(url + name, look);
      await page.until("document.querySelector('.vp-doc h1') !== null");
      expect(await page.evaluate('document.documentElement.scrollWidth'), name).toBe(look.width);
      expect(await page.evaluate("document.documentElement.classList.contains('dark')")).toBe('dark' in look);
      expect(page.said, name).toEqual([]);
      expect(page.asked.filter((asked) => !asked.startsWith(url) && !asked.startsWith('data:'))).toEqual([]);
    }
  });

  it('a desktop shows all code of the pages to begin with', async () => {
    const first = /^(index|start\/(slurm|spot)|which-role\/.*)\.html$/;
    const pages = filesOf('.html').filter((name) => first.test(name));
    expect(pages.length).toBeGreaterThan(8);
    for (const name of pages) {
      const page = await chromium.open(url + name, { width: 1280, height: 900 });
      await page.until("document.querySelector('.vp-doc h1') !== null");
      const cut = "[...document.querySelectorAll('pre')].filter((one) => one.scrollWidth > one.clientWidth)";
      expect(await page.evaluate(`${cut}.map((one) => one.textContent)`), name).toEqual([]);
    }
  });

  it('the search finds an option where it is explained', async () => {
    const page = await chromium.open(url, { width: 1280, height: 900 });
    // The button is in the page as it is served. A key that is pressed before the scripts have taken the page over is lost.
    await page.until("document.querySelector('#app').__vue_app__ !== undefined");
    await page.press('/');
    await page.until("document.activeElement.id === 'localsearch-input'");
    await page.press(...Array.from('skip-done'));
    await page.until('document.querySelector(\'.result[href="/options.html#start-of-the-task"]\') !== null');
    expect(page.said).toEqual([]);
  });
});
