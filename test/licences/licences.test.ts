// The notices of what the programs contain: each package with its text, or no build.
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { noticesOf, packagesIn } from '../../licences/licences.mjs';
import { testDir } from '../support/work-dir.ts';

const dir = testDir();
afterAll(() => dir.remove());

/** A package as it stands in node_modules. */
function packageOf(name: string, license: string | undefined, text?: string): string {
  const at = path.join(dir.path, 'node_modules', name);
  fs.mkdirSync(at, { recursive: true });
  fs.writeFileSync(path.join(at, 'package.json'), JSON.stringify({ name, version: '1.2.3', license }));
  if (text !== undefined) fs.writeFileSync(path.join(at, 'LICENSE'), text);
  return at;
}

it('go along with the programs, also for what the page of the queue contains', () => {
  const text = fs.readFileSync('dist/THIRD-PARTY-NOTICES', 'utf8');
  for (const name of ['commander', 'zod', 'pino', 'bullmq', '@aws-sdk/core', 'uplot', 'hash-wasm', 'tslib'])
    expect(text).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\(`, 'm'));
  for (const name of ['@bull-board/ui', 'react-dom', 'recharts'])
    expect(text).toMatch(new RegExp(`^${name} \\d+\\.\\d+\\.\\d+ \\(MIT\\)`, 'm'));
  expect(text).toContain('Copyright (c) 2011 TJ Holowaychuk');
});

it('say the same text once', () => {
  const dirs = ['a', 'b'].map((name) => packageOf(name, 'MIT', 'the text'));
  expect(noticesOf(dirs)).toMatch(/^a 1\.2\.3 \(MIT\)\nb 1\.2\.3 \(MIT\)\n\nthe text\n/);
});

it('fail the build where a text is missing, or a licence is none that may be passed on', () => {
  expect(() => noticesOf([packageOf('bare', 'MIT')])).toThrow('bare has no text of its licence');
  expect(() => noticesOf([packageOf('copyleft', 'GPL-3.0-only', 'text')])).toThrow('GPL-3.0-only');
  expect(() => noticesOf([packageOf('silent', undefined, 'text')])).toThrow('silent');
  expect(() => noticesOf([packageOf('mixed', 'MIT AND AGPL-3.0-only', 'text')])).toThrow('AGPL-3.0-only');
});

it('are of the packages that were bundled, by the files of which they were made', () => {
  const [one, scoped] = ['one', '@of/two'].map((name) => packageOf(name, 'MIT', 'text'));
  const inputs = { [`${one}/lib/a.js`]: {}, [`${scoped}/b.js`]: {}, 'src/own.ts': {} };
  expect(packagesIn([{ inputs }, { inputs }])).toEqual([scoped, one]);
});
