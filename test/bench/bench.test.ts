// The bench runs, and its JSON has what docs/dev/performance/figures.md shows. It measures next to nothing here, with no rival, and
// no figure of time, CPU or memory decides anything.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { testDir } from '../support/work-dir.ts';

interface Row {
  readonly case: string;
  readonly tool: string;
  readonly figures: Readonly<Record<string, number | string>>;
  readonly rounds: readonly { readonly error?: string }[];
}

interface Part {
  readonly name: string;
  readonly columns: readonly { readonly key: string }[];
  readonly rows: readonly Row[];
}

const BENCH = fileURLToPath(new URL('../../bench/bench.mjs', import.meta.url));
const dir = testDir();
const json = path.join(dir.path, 'figures.json');
const bench = (...args: readonly string[]): string =>
  execFileSync(process.execPath, [BENCH, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
let parts: readonly Part[];
let printed: string;

beforeAll(() => {
  printed = bench('--tiny', '--tools', 'capture', '--rounds', '1', '--json', json);
  ({ parts } = JSON.parse(fs.readFileSync(json, 'utf8')));
}, 600_000);

afterAll(() => dir.remove());

const files = fs.readdirSync(path.join(path.dirname(BENCH), 'parts')).map((file) => path.parse(file).name);
/** A part that needs a program which is not installed here is left out, and the run says so. */
const isMeasurable = (name: string): boolean => !printed.includes(`not measured: ${name} (`);

const rowsOf = (name: string): readonly Row[] => parts.find((part) => part.name === name)?.rows ?? [];

it('every part is measured, in each of its cases, without a failure', () => {
  expect(parts.map(({ name }) => name).toSorted()).toEqual(files.filter(isMeasurable).toSorted());
  const failures = parts.flatMap(({ name, rows }) =>
    rows.flatMap((row) => row.rounds.map(({ error }) => error && `${name}, ${row.case}: ${error}`)),
  );
  expect(failures.filter(Boolean)).toEqual([]);
  expect(parts.every(({ rows }) => rows.length > 0)).toBe(true);
});

it('the page explains each part', () => {
  const page = fs.readFileSync(new URL('../../docs/dev/performance.md', import.meta.url), 'utf8');
  const explained = [...page.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, name = '']) => name);
  expect(explained.toSorted()).toEqual(files.toSorted());
});

it('what capture has stored is judged by its bytes', () => {
  expect(rowsOf('small').map(({ figures }) => figures['stored'])).toEqual(['all', 'all', 'all']);
  expect(rowsOf('large').map(({ figures }) => figures['stored'])).toEqual(['yes', 'yes', 'yes']);
  const [inPlace, byRename] = rowsOf('checkpoint');
  expect([inPlace, byRename].map((row) => row?.figures)).toMatchObject([
    { torn: 0, deleted: 0, last: 'stored' },
    { torn: 0, deleted: 0, last: 'stored' },
  ]);
});

it('the JSON gives the tables again, with the machine and the targets', () => {
  const report = bench('--report', json);
  expect(report).toMatch(/^Measured on \d{4}-\d\d-\d\d in \d+ min at commit .*\d+ cores?, .*Node \d+/);
  expect(report).toContain('| what | wanted | measured | met |');
  // The same part by part as what was printed while it measured.
  expect(report.slice(report.indexOf('\n### From the command')).trim()).toBe(
    printed.slice(printed.indexOf('\n### From the command')).trim(),
  );
});

it('how figures grow is drawn', () => {
  const plots = dir.names('.').filter((name) => name.endsWith('.svg'));
  expect(plots).toEqual([
    'figures-burst-cpuS.svg',
    'figures-burst-visibleS.svg',
    'figures-file-size-peakMiB.svg',
    'figures-file-size-visibleS.svg',
    'figures-pending-peakMiB.svg',
    ...(isMeasurable('queue') ? ['figures-queue-redisMiB.svg', 'figures-queue-submitS.svg'] : []),
  ]);
  for (const name of plots) expect(dir.read(name)).toMatch(/^<svg [^]*<\/svg>\n$/);
});
