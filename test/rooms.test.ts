// The rooms of src/ import what their rows in ARCHITECTURE.md name, and nothing else.
import fs from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';

const ROOT = new URL('..', import.meta.url);
const PAGE = fs.readFileSync(new URL('ARCHITECTURE.md', ROOT), 'utf8');

interface Room {
  /** Folders, or files, below src/. */
  readonly names: readonly string[];
  readonly may: readonly string[];
}

const codeIn = (cell = ''): readonly string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);

/** The cells of the rows below a head. */
function tableBelow(head: string): readonly (readonly string[])[] {
  const rows = PAGE.split(`${head}\n`)[1]?.split('\n\n')[0]?.split('\n').slice(1) ?? [];
  return rows.map((row) => row.split('|').slice(1, -1));
}

const ROOMS: readonly Room[] = tableBelow('| room | what it is | may import |').map(([names, , may]) => ({
  names: codeIn(names),
  may: codeIn(may),
}));
const REASONS = tableBelow('| rooms | why |').map(([rooms, why = '']) => ({
  rooms: codeIn(rooms),
  why: why.trim(),
}));

/** `a/*` is each folder in `a`; `a/**` is `a`, too, and what is deeper in it. */
function isOf(name: string, pattern: string): boolean {
  if (pattern.endsWith('/**')) return `${name}/`.startsWith(pattern.slice(0, -2));
  if (pattern.endsWith('/*')) return path.dirname(name) === pattern.slice(0, -2) && !name.endsWith('.ts');
  return name === pattern;
}

/** The room of a file is in the row that names it, its folder, or all folders beside that. */
function roomOf(file: string): { readonly name: string; readonly row: Room } | undefined {
  const folder = path.dirname(file);
  for (const [name, wanted] of [
    [file, file],
    [folder, folder],
    [folder, `${path.dirname(folder)}/*`],
  ] as const) {
    const row = ROOMS.find(({ names }) => names.includes(wanted));
    if (row !== undefined) return { name, row };
  }
  return undefined;
}

const GAP = String.raw`(?:\s|/\*[^]*?\*/|//.*\n)*`;
/**
 * In each form of an import its name follows one of these words. What is no string could be of anything: a row has to name
 * `import()`.
 */
const IMPORT = new RegExp(
  String.raw`\b(?:from|import|require)\b${GAP}\(?${GAP}(?:'([^'\n]*)'|"([^"\n]*)")|\bimport${GAP}(\()`,
  'g',
);
/** Texts, too, have such words before a quote. */
const MODULE = /^[./#@a-z][\w@./:-]*$/;

const importsOf = (text: string): readonly string[] =>
  [...text.matchAll(IMPORT)]
    .map(([, single, double, computed]) => single ?? double ?? (computed === undefined ? '' : 'import()'))
    .filter((name) => name === 'import()' || MODULE.test(name));

/** What a row has to name, if it has to name anything: a room, a package, or a module of Node. */
function targetOf(file: string, name: string): string | undefined {
  const own = roomOf(file);
  if (name.startsWith('.')) {
    const target = path.join(path.dirname(file), name);
    const room = roomOf(target)?.name ?? target;
    return room === own?.name || own?.row.names.includes(room) ? undefined : room;
  }
  if (name.startsWith('node:')) return isOf(own?.name ?? '', 'model/**') ? name : undefined;
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');
}

function breachesOf(file: string, text: string): readonly string[] {
  const room = roomOf(file);
  if (room === undefined) return [`src/${file} is in no room of ARCHITECTURE.md`];
  const why = REASONS.find(({ rooms }) => rooms.some((one) => isOf(room.name, one)))?.why;
  return importsOf(text).flatMap((name) => {
    const target = targetOf(file, name);
    if (target === undefined || room.row.may.some((one) => isOf(target, one))) return [];
    return [
      `src/${file} imports ${name}: ARCHITECTURE.md says that ${room.name} may import ${room.row.may.join(', ')}. ` +
        (why ?? 'Imports run one way, from the top of its table down.'),
    ];
  });
}

const FILES = fs
  .readdirSync(new URL('src', ROOT), { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.[cm]?[jt]sx?$/.test(file) && file !== 'globals.d.ts')
  .map((file) => ({ file, text: fs.readFileSync(new URL(`src/${file}`, ROOT), 'utf8') }));

it('each file is in a room, and imports only what the row of its room names', () => {
  expect(FILES.length).toBeGreaterThan(400);
  expect(FILES.flatMap(({ file, text }) => breachesOf(file, text))).toEqual([]);
});

it('each name in the table is needed', () => {
  const unused = ROOMS.flatMap(({ names, may }) => {
    const own = FILES.filter(({ file }) => roomOf(file)?.row.names === names);
    const targets = own.flatMap(({ file, text }) => importsOf(text).map((name) => targetOf(file, name)));
    const needed = (one: string): boolean =>
      targets.some((target) => target !== undefined && isOf(target, one));
    return [
      ...names.filter((name) => !own.some(({ file }) => isOf(file, name) || isOf(path.dirname(file), name))),
      ...may.filter((one) => !needed(one)).map((one) => `${names.join(', ')}: ${one}`),
    ];
  });
  const reasons = REASONS.flatMap(({ rooms }) => rooms);
  const idle = reasons.filter((one) => !FILES.some(({ file }) => isOf(roomOf(file)?.name ?? '', one)));
  expect([...unused, ...idle]).toEqual([]);
});

it('a room imports only rooms that stand below it, so there is no circle', () => {
  const upward = ROOMS.flatMap(({ names, may }, at) =>
    may
      .filter((one) => ROOMS.slice(0, at + 1).some((above) => above.names.some((name) => isOf(name, one))))
      .map((one) => `${names.join(', ')}: ${one}`),
  );
  expect(upward).toEqual([]);
});

it.each([
  [`import { a } from '../read/a.ts';`],
  [`import type { A } from '../read/a.ts';`],
  [`import a, {\n  type B,\n} from "../read/a.ts";`],
  [`import '../read/a.ts';`],
  [`import /* a */ '../read/a.ts' with { type: 'json' };`],
  [`export * from // a\n  '../read/a.ts';`],
  [`export * as a from '../read/a.ts';`],
  [`export type { A } from '../read/a.ts';`],
  [`const a = await import('../read/a.ts');`],
  ['const a = await import(\n  /* a */ `../read/a.ts`,\n);'],
  [`type A = import('../read/a.ts').A;`],
  [`import a = require('../read/a.ts');`],
  [`const a = await import(name);`],
  ['const a = await import(`../${name}/a.ts`);'],
])('an import is seen in each form: %s', (line) => {
  expect(breachesOf('watch/b.ts', `const b = 1;\n${line}\n`)).toHaveLength(1);
});

it.each([
  ['model/a.ts', 'node:fs/promises'],
  ['model/file/a.ts', '../format/a.ts'],
  ['model/many/a.ts', '../../native/clock.ts'],
  ['native/a.ts', '../store/open.ts'],
  ['watch/a.ts', '../read/a.ts'],
  ['watch/a.ts', '../sidecar/sidecar.ts'],
  ['read/a.ts', '../store/open.ts'],
  ['store/s3/a.ts', '../file/file.ts'],
  ['store/s3/a.ts', '../open.ts'],
  ['notify/a.ts', '../records/read.ts'],
  ['launch/a.ts', 'zod'],
  ['launch/a.ts', '../log/log.ts'],
  ['sidecar/queue/a.ts', '../checkpoints/commits.ts'],
  ['sidecar/disk/a.ts', '../sidecar.ts'],
  ['sidecar/startup/a.ts', '../shutdown/finish.ts'],
  ['sidecar/a.ts', '../launch/task.ts'],
  ['doctor/a.ts', '../cli/command.ts'],
  ['many/queue/a.ts', '../../sidecar/sidecar.ts'],
  ['array/a.ts', '../many/board.ts'],
  ['array/ls/a.ts', '../cat/cat.ts'],
  ['array/ls/a.ts', '../commands.ts'],
  ['cli/options/a.ts', '../../array/survey.ts'],
  ['read/a.ts', '@aws-sdk/client-s3'],
  ['read/a.ts', '../../test/support/a.ts'],
])('%s may not import %s', (file, name) => {
  expect(breachesOf(file, `import '${name}';`)).toHaveLength(1);
});

it('a new folder is refused until the table has it', () => {
  expect(breachesOf('utils/a.ts', '')).toEqual(['src/utils/a.ts is in no room of ARCHITECTURE.md']);
});
