// The programs of dist/ as the first file of a process loads them (native/program.ts), and what the build has put there.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import zlib from 'node:zlib';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { testDir } from '../support/work-dir.ts';

const dir = testDir();
const FILE = path.join(dir.path, 'capture.code');
beforeEach(() => {
  for (const name of ['capture.cjs', 'capture.code'])
    fs.copyFileSync(path.join('dist', name), path.join(dir.path, name));
});
afterAll(() => dir.remove());

interface Program {
  readonly header: { readonly sourceBytes: number; readonly compiledBy: string };
  readonly source: string;
  readonly compiled: Buffer;
}

function read(file: string): Program {
  const bytes = fs.readFileSync(file);
  const start = bytes.indexOf('\n') + 1;
  const header = JSON.parse(bytes.toString('latin1', 0, start)) as Program['header'];
  const end = start + header.sourceBytes;
  return { header, source: bytes.toString('latin1', start, end), compiled: bytes.subarray(end) };
}

/** As the build writes it, but for what `change` says. */
function write(source: string, compiled: Uint8Array, change: Partial<Program['header']> = {}): void {
  const compiledBy = `${process.version} ${process.arch}`;
  const both = Buffer.concat([Buffer.from(source), compiled]);
  const header = { sourceBytes: source.length, compiledBy, crc32: zlib.crc32(both), ...change };
  fs.writeFileSync(FILE, Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), both]));
}

function run(args: readonly string[], flags: readonly string[] = []): string {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...flags, path.join(dir.path, 'capture.cjs'), ...args],
    { encoding: 'utf8' },
  );
  return `${status} ${stdout}${stderr}`.trim();
}

/** What V8 has made of a program that says `word`; V8 takes it for each source of the same length. */
function compiledProgram(word: string): { readonly source: string; readonly compiled: Buffer } {
  const source = `(function(exports){exports.runAndExit=(say=console.log)=>say("${word}")})`;
  const script = new vm.Script(source);
  const exports: { runAndExit?: (say: () => void) => void } = {};
  (script.runInThisContext() as (into: object) => void)(exports);
  exports.runAndExit?.(() => undefined); // V8 has compiled only what has run
  return { source, compiled: script.createCachedData() };
}

it.each(['capture', 'sidecar', 's3', 'worker'])('the build has compiled %s, and this V8 takes it', (name) => {
  const { source, compiled } = read(`dist/${name}.code`);
  expect(new vm.Script(source, { cachedData: compiled }).cachedDataRejected).toBe(false);
});

it('what was compiled runs if this Node has compiled it, and the source if another has', () => {
  const { compiled } = compiledProgram('compiled');
  const { source } = compiledProgram('a source');
  write(source, compiled);
  expect(run([])).toBe('0 compiled');
  for (const compiledBy of [`v20.19.0 ${process.arch}`, `${process.version} another`]) {
    write(source, compiled, { compiledBy });
    expect(run([]), compiledBy).toBe('0 a source');
  }
});

it('the source runs if one bit of what was compiled has changed', () => {
  const { header, source, compiled } = read('dist/capture.code');
  // In the middle of a string of it, which V8 would show as it is.
  const at = compiled.indexOf('--max-attempts') + 2;
  expect(at).toBeGreaterThan(2);
  compiled[at]! ^= 1;
  fs.writeFileSync(FILE, Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n${source}`), compiled]));
  expect(run(['--help'])).toContain('--max-attempts');
});

it('the source runs as it stands if somebody has changed it', () => {
  const text = fs.readFileSync(FILE, 'latin1');
  fs.writeFileSync(FILE, text.replace('the state of each index', 'THE STATE OF EACH INDEX'), 'latin1');
  expect(run(['--help'])).toContain('THE STATE OF EACH INDEX');
});

it.each([
  ['nothing', Buffer.alloc(0)],
  ['no work of a V8', Buffer.alloc(10_000, 7)],
])('the source runs if what was compiled is %s', (_, compiled) => {
  write(read('dist/capture.code').source, compiled);
  expect(run(['--version'])).toMatch(/^0 \d+\.\d+\.\d+$/);
});

it('the source runs if V8 has other flags', () => {
  expect(run(['--version'], ['--no-opt', '--stack-size=2000'])).toMatch(/^0 \d+\.\d+\.\d+$/);
});

it.each([
  ['only the end of what was compiled is missing', (length: number) => length - 1, /^0 \d+\.\d+\.\d+$/],
  [
    'the end of the source is missing',
    () => 100_000,
    /^70 capture: .*capture\.code is damaged: it was cut off \(try: install/,
  ],
  ['it is empty', () => 0, /^70 capture: .*capture\.code is damaged: it was cut off \(try: install/],
])('a program that is cut off runs, or says that it cannot: %s', (_, length, said) => {
  fs.truncateSync(FILE, length(fs.statSync(FILE).size));
  expect(run(['--version'])).toMatch(said);
});

it.each([
  [
    'is missing',
    () => fs.rmSync(FILE),
    /^70 capture: .*capture\.code is damaged: ENOENT.*\(try: install.*\)$/,
  ],
  [
    'is not JavaScript',
    () => write('(function(){', Buffer.alloc(0)),
    /^70 capture: .*: Unexpected end of.*\)$/,
  ],
])('a program that %s ends with 70 and one line, not with a status that a task may have', (_, harm, said) => {
  harm();
  expect(run(['--version'])).toMatch(said);
});

it('what was compiled is taken whatever the size of the heap, and the heap has this size', () => {
  const told = `(function(exports, require) {
    const v8 = require('node:v8');
    const limitMiB = v8.getHeapStatistics().heap_size_limit / 2 ** 20;
    exports.runAndExit = () => console.log(JSON.stringify({ tag: v8.cachedDataVersionTag(), limitMiB }));
  })`;
  write(told, Buffer.alloc(0));
  const answer = (flags: readonly string[]) =>
    JSON.parse(run([], flags).slice(2)) as { readonly tag: number; readonly limitMiB: number };
  const small = answer(['--max-old-space-size=64', '--max-semi-space-size=1']);
  expect(small.tag).toBe(answer([]).tag);
  expect(small.limitMiB).toBeLessThan(80);
});
