// The programs of dist/ as the first file of a process loads them (native/compiled.ts, native/first-module.ts), and what
// the build has put there.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import path from 'node:path';
import vm from 'node:vm';
import zlib from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { testDir, type TestDir } from '../support/work-dir.ts';

const JAVASCRIPT = fs.readdirSync('dist').filter((name) => /\.[cm]js$/.test(name));
let dir: TestDir;
let sourceFile: string;
let compiledFile: string;
beforeEach(() => {
  dir = testDir();
  sourceFile = path.join(dir.path, 'capture-program.cjs');
  compiledFile = path.join(dir.path, 'capture-program.v8');
  for (const name of [...JAVASCRIPT, 'capture-program.v8'])
    fs.copyFileSync(path.join('dist', name), path.join(dir.path, name));
});
afterEach(() => dir.remove());

interface Header {
  readonly compiledBy: string;
  readonly crc32: readonly [number, number];
}

function read(file: string): { readonly header: Header; readonly code: Buffer } {
  const bytes = fs.readFileSync(file);
  const start = bytes.indexOf('\n') + 1;
  return { header: JSON.parse(bytes.toString('latin1', 0, start)) as Header, code: bytes.subarray(start) };
}

/** As the build writes it, but for what `change` says. */
function write(source: string, code: Uint8Array, change: Partial<Header> = {}): void {
  const compiledBy = `${process.version} ${process.arch}`;
  const header: Header = { compiledBy, crc32: [zlib.crc32(source), zlib.crc32(code)], ...change };
  fs.writeFileSync(sourceFile, source);
  fs.writeFileSync(compiledFile, Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), code]));
}

function run(args: readonly string[], flags: readonly string[] = [], first = 'capture.cjs'): string {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...flags, path.join(dir.path, first), ...args],
    { encoding: 'utf8', cwd: '/' },
  );
  return `${status} ${stdout}${stderr}`.trim();
}

const asFunction = (source: string): string =>
  `(function (exports, require, module, __filename, __dirname) {${source}\n})`;

/** What V8 has made of a program that says `word`; V8 takes it for each source of the same length. */
function compiledProgram(word: string): { readonly source: string; readonly code: Buffer } {
  const source = `exports.main=(say="${word}")=>console.log(say)`;
  const script = new vm.Script(asFunction(source));
  const exports: { main?: () => void } = {};
  (script.runInThisContext() as (into: object) => void)(exports);
  exports.main?.(); // V8 has compiled only what has run
  return { source, code: script.createCachedData() };
}

describe('what the build has compiled', () => {
  it.each(['capture-program', 'sidecar-program', 's3'])('is of %s, and this V8 takes it', (name) => {
    const { header, code } = read(`dist/${name}.v8`);
    const source = fs.readFileSync(`dist/${name}.cjs`, 'utf8');
    expect(header.crc32).toEqual([zlib.crc32(source), zlib.crc32(code)]);
    expect(new vm.Script(asFunction(source), { cachedData: code }).cachedDataRejected).toBe(false);
  });

  it('runs if this Node has compiled it of this source, and the source if not', () => {
    const { code } = compiledProgram('compiled');
    const { source } = compiledProgram('a source');
    write(source, code);
    expect(run([])).toBe('0 compiled');
    for (const change of [
      { compiledBy: `v20.19.0 ${process.arch}` },
      { compiledBy: `${process.version} another` },
      { crc32: [zlib.crc32('another source'), zlib.crc32(code)] },
      { crc32: [zlib.crc32(source), zlib.crc32('another code')] },
    ] satisfies readonly Partial<Header>[]) {
      write(source, code, change);
      expect(run([]), JSON.stringify(change)).toBe('0 a source');
    }
  });

  it('is not run if one bit of it has changed', () => {
    const bytes = fs.readFileSync(compiledFile);
    // In the middle of a string of it, which V8 would show as it is.
    const at = bytes.indexOf('--max-attempts') + 2;
    expect(at).toBeGreaterThan(2);
    bytes[at]! ^= 1;
    fs.writeFileSync(compiledFile, bytes);
    expect(run(['--help'])).toContain('--max-attempts');
  });

  it('is not run if somebody has changed the source', () => {
    const text = fs.readFileSync(sourceFile, 'utf8');
    fs.writeFileSync(sourceFile, text.replace('the state of each index', 'THE STATE OF EACH INDEX'));
    expect(run(['--help'])).toContain('THE STATE OF EACH INDEX');
  });

  it.each<[string, () => void]>([
    ['is missing', () => fs.rmSync(compiledFile)],
    ['is empty', () => fs.truncateSync(compiledFile)],
    ['has only a header', () => write(fs.readFileSync(sourceFile, 'utf8'), Buffer.alloc(0))],
    ['is no work of a V8', () => write(fs.readFileSync(sourceFile, 'utf8'), Buffer.alloc(10_000, 7))],
    ['is cut off', () => fs.truncateSync(compiledFile, fs.statSync(compiledFile).size - 1)],
  ])('need not be there: it %s', (_, harm) => {
    harm();
    expect(run(['--version'])).toMatch(/^0 \d+\.\d+\.\d+$/);
  });

  it('need not fit the flags of V8', () => {
    expect(run(['--version'], ['--no-opt', '--stack-size=2000'])).toMatch(/^0 \d+\.\d+\.\d+$/);
  });

  it('is taken whatever the size of the heap, and the heap has this size', () => {
    const told = `
      const v8 = require('node:v8');
      const limitMiB = v8.getHeapStatistics().heap_size_limit / 2 ** 20;
      exports.main = () => console.log(JSON.stringify({ tag: v8.cachedDataVersionTag(), limitMiB }));`;
    write(told, Buffer.alloc(0));
    const answer = (flags: readonly string[]) =>
      JSON.parse(run([], flags).slice(2)) as { readonly tag: number; readonly limitMiB: number };
    const small = answer(['--max-old-space-size=64', '--max-semi-space-size=1']);
    expect(small.tag).toBe(answer([]).tag);
    expect(small.limitMiB).toBeLessThan(80);
  });
});

describe.each([
  ['capture.cjs', 'capture-program.cjs'],
  ['flush.cjs', 'flush-program.cjs'],
  ['sidecar.cjs', 'sidecar-program.cjs'],
  ['array.cjs', 'array-program.mjs'],
  ['many.cjs', 'many-program.mjs'],
  ['queue.cjs', 'queue-program.mjs'],
])('a program ends with 70 and one line, not with a status that a task may have: %s', (first, name) => {
  const file = (): string => path.join(dir.path, name);
  const text = (): string => fs.readFileSync(path.join('dist', name), 'utf8');
  const imported = /from "\.\/(shared-\w+\.mjs)"/.exec(fs.readFileSync(path.join('dist', name), 'utf8'))?.[1];

  it.each<[string, () => void]>([
    ['it is missing', () => fs.rmSync(file())],
    ['it is empty', () => fs.truncateSync(file())],
    ['it is cut off', () => fs.truncateSync(file(), 10_000)],
    // What is left is JavaScript, which would do nothing and end with 0.
    [
      'it is cut off between two statements',
      () => fs.writeFileSync(file(), text().slice(0, text().indexOf('\n\n'))),
    ],
    ['it is no JavaScript', () => fs.writeFileSync(file(), '(function(){')],
    [
      'what it imports is missing',
      () => (imported === undefined ? fs.rmSync(file()) : fs.rmSync(path.join(dir.path, imported))),
    ],
  ])('%s', (_, harm) => {
    harm();
    const said = run(['--version'], [], first);
    expect(said).toMatch(/^70 capture: [^\n]* is damaged: [^]* \(try: install capture again\)$/);
    expect(said).toContain(name);
  });
});

it('a program that lacks a file which only some runs need says so, with 70', () => {
  fs.writeFileSync(path.join(dir.path, 'log.cjs'), '(function(){');
  const run = spawnSync(
    process.execPath,
    [path.join(dir.path, 'capture.cjs'), '--log-format', 'json', '--to', dir.path, '--', 'false'],
    { encoding: 'utf8', cwd: '/' },
  );
  expect(run.status).toBe(70);
  expect(run.stderr).toMatch(/log\.cjs is damaged: [^]*install capture again/);
});

it('each file can be read and debugged: it has lines, names, and a map to the sources', () => {
  expect(JAVASCRIPT.length).toBeGreaterThan(20);
  for (const name of JAVASCRIPT) {
    const text = fs.readFileSync(path.join('dist', name), 'utf8');
    expect(text.trimEnd().endsWith(`//# sourceMappingURL=${name}.map`), name).toBe(true);
    const map = JSON.parse(fs.readFileSync(path.join('dist', `${name}.map`), 'utf8')) as SourceMapPayload;
    for (const source of map.sources.filter((one) => one.startsWith('../src/')))
      expect(fs.existsSync(path.join('dist', source)), `${name}: ${source}`).toBe(true);
  }
  const text = fs.readFileSync('dist/sidecar-program.cjs', 'utf8').split('\n');
  const map = JSON.parse(fs.readFileSync('dist/sidecar-program.cjs.map', 'utf8')) as SourceMapPayload;
  const line = text.findIndex((one) => one.startsWith('function serveOurLauncher('));
  expect(new SourceMap(map).findEntry(line, 'function '.length)).toMatchObject({
    originalSource: '../src/sidecar/main.ts',
  });
});
