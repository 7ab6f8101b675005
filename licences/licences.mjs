// The licences of what the programs contain. Each package that esbuild has bundled must have one that we may pass on, and
// its text goes along, as its licence asks: else the build fails.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

/** By their SPDX names. */
const ALLOWED = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'Unlicense']);

/** Packages without a text of their own, and the one that ships it for them: of the same owners. */
const TEXT_OF = {
  '@aws-sdk/credential-provider-http': '@aws-sdk/credential-provider-node',
  '@aws-sdk/credential-provider-login': '@aws-sdk/credential-provider-node',
  '@aws-sdk/nested-clients': '@aws-sdk/core',
};
/** Packages that only name their licence, and whose it is: its text is the same for all. */
const OWNERS = {
  '@bull-board/api': 'felixmosh and the contributors of bull-board',
  '@bull-board/hono': 'felixmosh and the contributors of bull-board',
  '@bull-board/ui': 'felixmosh and the contributors of bull-board',
  '@nodable/entities': 'Amit Gupta',
  'codemirror-json5': 'Daniel Imfeld',
  isarray: '2013 Julian Gruber',
  'redis-info': 'the contributors of redis-info',
};

const RULE = '-'.repeat(80);

/** Packages whose licence stands in its text only. */
const LICENCES = { ssh2: 'MIT', 'valid-url': 'MIT' };

/** One package, and the texts that go with it. */
function noticeOf(dir) {
  const {
    name,
    version,
    license = LICENCES[name],
  } = JSON.parse(readFileSync(path.join(dir, 'package.json'), 'utf8'));
  if (
    !String(license)
      .split(' AND ')
      .every((one) => ALLOWED.has(one))
  )
    throw new Error(
      `${name} is under the licence ${license}, which is not one of ${[...ALLOWED].join(', ')}`,
    );
  return { title: `${name} ${version} (${license})`, text: textOf(dir, name, license) };
}

function textOf(dir, name, license) {
  const own = textsIn(dir);
  if (own !== '') return own;
  const other = TEXT_OF[name];
  if (other !== undefined) return textsIn(path.join('node_modules', other));
  const owner = OWNERS[name];
  if (owner === undefined || license !== 'MIT')
    throw new Error(`${name} has no text of its licence: name whose it is in licences/licences.mjs`);
  return readFileSync(new URL('mit.txt', import.meta.url), 'utf8')
    .replace('<owner>', owner)
    .trim();
}

/** Also what the Apache licence wants passed on beside it. */
function textsIn(dir) {
  return readdirSync(dir)
    .filter((name) => /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i.test(name))
    .toSorted((a, b) => (a < b ? -1 : 1))
    .map((name) => readFileSync(path.join(dir, name), 'utf8').replaceAll('\r\n', '\n').trim())
    .join('\n\n');
}

/** The directories of all packages that metafiles of esbuild name. */
export function packagesIn(metafiles) {
  const dirs = metafiles
    .flatMap(({ inputs }) => Object.keys(inputs))
    .flatMap((input) => /^(.*\bnode_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1] ?? [])
    .filter((dir) => existsSync(path.join(dir, 'package.json')));
  return [...new Set(dirs)].toSorted((a, b) => (a < b ? -1 : 1));
}

/** The notices of these packages; those with the same text stand together. */
export function noticesOf(dirs) {
  const byText = new Map();
  for (const { title, text } of dirs.map(noticeOf)) byText.set(text, [...(byText.get(text) ?? []), title]);
  return [...byText].map(([text, titles]) => `${titles.join('\n')}\n\n${text}\n\n${RULE}\n`).join('\n');
}

/** The package whose page comes with other packages inside, and its version. */
export function boardUi() {
  const { name, version } = createRequire(import.meta.url)('@bull-board/ui/package.json');
  return `${name} ${version}`;
}

/** The notices of what is inside of that page, which its version must fit. */
export function boardUiNotices() {
  const text = readFileSync(new URL('board-ui.txt', import.meta.url), 'utf8');
  const [of, rest] = [text.split('\n', 1)[0], text.slice(text.indexOf('\n\n') + 2)];
  if (of !== boardUi())
    throw new Error(
      `licences/board-ui.txt is of ${of}, and ${boardUi()} is here: run node licences/board-ui.mjs`,
    );
  return rest;
}
