// The programs of dist/ as the first file of a process loads them (native/program.ts), and what the build has put there.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { testDir } from '../support/work-dir.ts';

const LENGTH_DIGITS = 12;
const dir = testDir();
beforeEach(() => {
  for (const name of ['capture.cjs', 'capture.code'])
    fs.copyFileSync(path.join('dist', name), path.join(dir.path, name));
});
afterAll(() => dir.remove());

function read(file: string): { readonly source: string; readonly compiled: Buffer } {
  const bytes = fs.readFileSync(file);
  const end = bytes.length - LENGTH_DIGITS;
  const length = Number(bytes.toString('latin1', end));
  return { source: bytes.toString('latin1', 0, length), compiled: bytes.subarray(length, end) };
}

function write(name: string, source: string, compiled: Uint8Array = Buffer.alloc(0)): void {
  const length = String(source.length).padStart(LENGTH_DIGITS, '0');
  fs.writeFileSync(
    path.join(dir.path, name),
    Buffer.concat([Buffer.from(source), compiled, Buffer.from(length)]),
  );
}

function run(
  args: readonly string[],
  flags: readonly string[] = [],
): { readonly status: number | null; readonly stdout: string } {
  const { status, stdout } = spawnSync(
    process.execPath,
    [...flags, path.join(dir.path, 'capture.cjs'), ...args],
    {
      encoding: 'utf8',
    },
  );
  return { status, stdout };
}

it.each(['capture', 'sidecar'])('the build has compiled %s, and this V8 takes it', (name) => {
  const { source, compiled } = read(`dist/${name}.code`);
  expect(new vm.Script(source, { cachedData: compiled }).cachedDataRejected).toBe(false);
});

it.each([
  ['none', Buffer.alloc(0)],
  ['of another V8', Buffer.alloc(10_000, 7)],
])('a program runs where what was compiled is %s', (_, compiled) => {
  write('capture.code', read('dist/capture.code').source, compiled);
  expect(run(['--version'])).toEqual({ status: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
});

it('what was compiled is taken whatever the size of the heap, and the heap has this size', () => {
  const told = `(function(exports, require) {
    const v8 = require('node:v8');
    const limitMiB = v8.getHeapStatistics().heap_size_limit / 2 ** 20;
    const plain = { tag: v8.cachedDataVersionTag() };
    console.log(JSON.stringify({ ...plain, limitMiB }));
  })`;
  write('capture.code', told);
  const { tag } = JSON.parse(run([]).stdout) as { tag: number };
  const small = JSON.parse(run([], ['--max-old-space-size=64', '--max-semi-space-size=1']).stdout) as {
    tag: number;
    limitMiB: number;
  };
  expect(small.tag).toBe(tag);
  expect(small.limitMiB).toBeLessThan(80);
});
