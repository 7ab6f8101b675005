// What the README says of installing: npm needs no compiler, and the demo works on each maintained Node, with
// zstd-napi and without. The zstd of Node itself, which the Node of these tests may not have, is shown here as well.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NEWER_NODES, ROOT, withNode } from './nodes.ts';

const run = promisify(execFile);
const NODES = [undefined, ...NEWER_NODES];
const INSTALLED = [
  '.npmrc',
  'bin',
  'build.mjs',
  'examples',
  'licences',
  'package.json',
  'packaging',
  'package-lock.json',
  'src',
  'tsconfig.json',
];
const COMPILERS = ['cc', 'gcc', 'g++', 'c++', 'clang', 'make'];

let dir: string;
let bare: string;
beforeAll(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-install-'));
  bare = path.join(dir, 'capture');
  for (const name of INSTALLED) fs.cpSync(path.join(ROOT, name), path.join(bare, name), { recursive: true });
  const broken = path.join(dir, 'no-compiler');
  fs.mkdirSync(broken);
  for (const name of COMPILERS)
    fs.writeFileSync(path.join(broken, name), '#!/bin/sh\nexit 127\n', { mode: 0o755 });
  const env = await withNode(undefined);
  const npm = (...args: readonly string[]) =>
    run('npm', args, {
      cwd: bare,
      // And no ready binary: nobody listens there (prebuild-install).
      env: {
        ...env,
        PATH: `${broken}:${env['PATH']}`,
        npm_config_zstd_napi_binary_host: 'http://127.0.0.1:9',
      },
    });
  await npm('ci', '--prefer-offline');
  await npm('run', 'build');
  await npm('prune', '--omit=dev');
});
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

it('npm ci succeeds without a compiler and without a ready binary, and leaves zstd-napi out', () => {
  expect(fs.existsSync(path.join(bare, 'node_modules/koffi'))).toBe(true);
  expect(fs.existsSync(path.join(bare, 'node_modules/zstd-napi'))).toBe(false);
});

it('a run needs no package that the bundle holds', async () => {
  for (const name of ['@aws-sdk/client-s3', 'esbuild', 'pino', 'zod'])
    expect(fs.existsSync(path.join(bare, 'node_modules', name)), name).toBe(false);
  // Those that do something are begun by a run of the demo.
  const dist = path.join(bare, 'dist');
  const doing = /^(array|capture|flush|many|queue|sidecar|worker)\.cjs$/;
  const programs = fs.readdirSync(dist).filter((name) => /\.[cm]js$/.test(name) && !doing.test(name));
  expect(programs.length).toBeGreaterThan(20);
  for (const name of programs)
    await run('node', [path.join(dist, name)], { cwd: bare, env: await withNode(undefined) });
});

it('a queue is asked without them, too', async () => {
  const args = ['queue', 'status', '--queue', 'redis+unix:///nowhere/redis.sock?name=lab'];
  const asked = run(path.join(bare, 'bin/capture'), args, { cwd: bare, env: await withNode(undefined) });
  await expect(asked).rejects.toMatchObject({
    stderr: expect.stringContaining('cannot use the queue') as unknown,
  });
});

it('an array runs without them, too', async () => {
  const store = path.join(dir, 'store-of-an-array');
  const args = [
    'array',
    '--array',
    '0-1',
    '--to',
    store,
    '-r',
    'r.dat',
    '--',
    'sh',
    '-c',
    'echo {index} > r.dat',
  ];
  await run(path.join(bare, 'bin/capture'), args, { cwd: dir, env: await withNode(undefined) });
  expect(fs.readFileSync(path.join(store, 'r.dat.1'), 'utf8')).toBe('1\n');
});

describe.each(NODES.map((major): [string, string | undefined] => [major ?? 'this one', major]))(
  'with Node %s',
  (_, major) => {
    it.each([
      ['with', () => ROOT],
      ['without', () => bare],
    ])('the demo works %s zstd-napi', async (__, where) => {
      const { stdout } = await run('examples/demo/demo.sh', { cwd: where(), env: await withNode(major) });
      expect(stdout.match(/^identical: /gm)).toHaveLength(9);
    });
  },
);

it.each(NEWER_NODES)('what tests say of zstd holds for that of Node %s', async (major) => {
  const tests = [
    'test/read/encode.test.ts',
    'test/restore/decompress.test.ts',
    'test/e2e/without-optional.test.ts',
  ];
  const vitest = path.join(ROOT, 'node_modules/vitest/vitest.mjs');
  const { stdout } = await run('node', [vitest, 'run', '--reporter=verbose', ...tests], {
    cwd: ROOT,
    env: await withNode(major),
  });
  // A name that no file has any more is passed over without a word.
  for (const test of tests) expect(stdout).toContain(test);
  expect(stdout).toContain('compressing with zlib');
  expect(stdout).toContain('what Node’s own zstd stored is restored with zstd-napi');
});
