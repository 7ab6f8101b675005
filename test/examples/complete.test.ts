// Each example is complete: a README of one screen, what it prints, a row in the table of all examples, a test that compares
// what it prints, and scripts that a shell can read.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');
const EXAMPLES = path.join(ROOT, 'examples');
const read = (...names: readonly string[]): string => fs.readFileSync(path.join(EXAMPLES, ...names), 'utf8');
const NAMES = fs
  .readdirSync(EXAMPLES, { withFileTypes: true })
  .flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));

/** The name and the cells of each row of the table. */
const ROWS = new Map(
  [...read('README.md').matchAll(/^\| \[[^\]]+\]\(([\w-]+)\/README\.md\) \|(.*)\|$/gm)].map(
    ([, name = '', cells = '']) => [name, cells.split('|').map((cell) => cell.trim())],
  ),
);
const linksIn = (text: string): readonly string[] =>
  [...text.matchAll(/\]\((?!https?:)([^)#\s]+)/g)].map(([, to = '']) => to);

it('the table of the examples has a row for each, and no other', () => {
  expect([...ROWS.keys()].toSorted()).toEqual(NAMES.toSorted());
});

it('all examples are directories', () => {
  expect(fs.readdirSync(EXAMPLES).filter((name) => !NAMES.includes(name))).toEqual(['README.md']);
});

describe.each(NAMES)('examples/%s', (name) => {
  const readme = (): string => read(name, 'README.md');

  it('has a README with a title, the commands, where it was tested, and at most 12 lines beside the commands', () => {
    const text = readme().replaceAll(/^```[^]*?^```\n|^ {4}.*\n/gm, '');
    expect(text).not.toBe(readme());
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(12);
    expect(text).toMatch(/^# \S/);
    expect(readme()).toMatch(/\btest(?:s|ed|\/)/i);
    expect(linksIn(readme()).filter((to) => !fs.existsSync(path.join(EXAMPLES, name, to)))).toEqual([]);
  });

  it('says what it prints, and its test compares that', () => {
    expect(readme()).toContain('expected.txt');
    expect(read(name, 'expected.txt').trim()).not.toBe('');
    const [shows = '', tested = ''] = ROWS.get(name) ?? [];
    expect(shows).not.toBe('');
    const tests = [...tested.matchAll(/`(test\/[\w/-]+\.test\.ts)`/g)].map(([, file = '']) => file);
    const texts = tests.map((file) => fs.readFileSync(path.join(ROOT, file), 'utf8'));
    const compares = (text: string): boolean =>
      /(?:expectOutputOf|expectDone|differAfterKill)\(/.test(text) &&
      new RegExp(`[\\s'{]${name}[':]`).test(text);
    expect(texts.some(compares), `${tested} compares with expected.txt of '${name}'`).toBe(true);
  });

  const scripts = fs
    .readdirSync(path.join(EXAMPLES, name), { withFileTypes: true })
    .filter((entry) => entry.isFile() && /^#!.*\b(?:ba)?sh\n/.test(read(name, entry.name)))
    .map((entry) => entry.name);

  it.runIf(scripts.length > 0).each(scripts)('%s is read by its shell', (script) => {
    const [, shell = ''] = /^#!.*\b((?:ba)?sh)\n/.exec(read(name, script)) ?? [];
    const { status, stderr } = spawnSync(shell, ['-n', path.join(EXAMPLES, name, script)], {
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
