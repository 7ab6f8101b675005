// The shell program bin/capture alone: the Node that it becomes, and what it tells that Node of its caller.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { until, watch } from './harness.ts';

let dir: string;
let capture: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-shim-'));
  fs.mkdirSync(path.join(dir, 'package/bin'), { recursive: true });
  fs.mkdirSync(path.join(dir, 'package/dist'));
  capture = path.join(dir, 'package/bin/capture');
  fs.copyFileSync('bin/capture', capture);
  const report = `
    const { CAPTURE_SIGIGN: ignored, CAPTURE_SIGBLK: blocked, CAPTURE_FDS: fds, CAPTURE_NOFILE: openFiles } = process.env;
    console.log(JSON.stringify({ pid: process.pid, args: process.argv.slice(2), ignored, blocked, fds, openFiles }));`;
  fs.writeFileSync(path.join(dir, 'package/dist/capture.cjs'), report);
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

interface Report {
  readonly pid: number;
  readonly args: readonly string[];
  readonly ignored?: string;
  readonly blocked?: string;
  readonly fds?: string;
  readonly openFiles?: string;
}

function report(file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Report {
  return JSON.parse(String(execFileSync(file, args, { env: { ...process.env, ...env } })));
}

describe('bin/capture', () => {
  test('passes its arguments on as they are', () => {
    const args = ['--results', 'a b', '', '*', '--', "it's"];
    expect(report(capture, args).args).toEqual(args);
  });

  test("help of a command is that command's --help", () => {
    const queue = path.join(dir, 'package/dist/queue.cjs');
    fs.copyFileSync(path.join(dir, 'package/dist/capture.cjs'), queue);
    expect(report(capture, ['help', 'worker', 'pause']).args).toEqual(['worker', 'pause', '--help']);
    expect(report(capture, ['help']).args).toEqual(['--help']);
    expect(report(capture, ['--', 'help']).args).toEqual(['--', 'help']);
  });

  test('finds its program through links, relative and absolute', () => {
    fs.mkdirSync(path.join(dir, '.bin'));
    fs.symlinkSync('../package/bin/capture', path.join(dir, '.bin/capture'));
    fs.symlinkSync(path.join(dir, '.bin/capture'), path.join(dir, 'capture'));
    expect(report(path.join(dir, '.bin/capture'), ['1']).args).toEqual(['1']);
    expect(report(path.join(dir, 'capture'), ['2']).args).toEqual(['2']);
  });

  test('finds its program when it is found in PATH', () => {
    const searchPath = `${path.dirname(capture)}:${process.env['PATH']}`;
    expect(report('sh', ['-c', 'capture 3'], { PATH: searchPath }).args).toEqual(['3']);
    expect(report('bash', ['-c', 'cd "$0" && sh capture 4', path.dirname(capture)]).args).toEqual(['4']);
  });

  test('becomes Node under its own pid', async () => {
    const child = spawn(capture, [], { stdio: ['ignore', 'pipe', 'inherit'] });
    const { status, stdout } = watch(child);
    expect(await status).toBe(0);
    expect(JSON.parse(stdout()).pid).toBe(child.pid);
  });

  test('tells which signals its caller ignored', () => {
    const said = report('sh', ['-c', 'trap "" HUP USR1; exec "$0"', capture]);
    expect(BigInt(`0x${said.ignored}`) & 0x201n).toBe(0x201n);
  });

  test.each(['sh', 'bash'])('tells which signals its caller blocked, run by %s', (shell) => {
    const said = report('env', ['--block-signal=USR1,ALRM', shell, capture]);
    expect(BigInt(`0x${said.blocked}`)).toBe((1n << 9n) | (1n << 13n));
    expect(report('env', [shell, capture]).blocked).toBeUndefined();
  });

  test('tells which open files its caller passed on, without those of the shell', () => {
    const close = 'for fd in /proc/self/fd/*; do n=${fd##*/}; [ $n -le 2 ] || eval "exec $n<&-"; done';
    expect(report('bash', ['-c', `${close}; exec 7</dev/null; exec "$0"`, capture]).fds?.trim()).toBe('7');
  });

  test('tells the soft limit of open files that it was started with', () => {
    expect(report('sh', ['-c', 'ulimit -Sn 333; exec "$0"', capture]).openFiles).toBe('333');
  });

  test('believes no variable of its own that was there before', () => {
    const said = report(capture, [], { CAPTURE_SIGIGN: 'ffff', CAPTURE_FDS: '42', CAPTURE_NOFILE: 'x' });
    expect(said.fds ?? '').not.toContain('42');
    expect(said.ignored).not.toBe('ffff');
    expect(said.openFiles).toMatch(/^\d+$/);
  });

  test.each([
    ['v18.20.8', 70],
    ['v8.17.0', 70],
    ['v20.18.3', 70],
    ['v20.19.0', 0],
    ['v24.1.0', 0],
  ])('with Node %s ends with %i, and says in one line what it needs', (version, status) => {
    const node = path.join(dir, 'node');
    fs.writeFileSync(
      node,
      `#!/bin/sh\n[ "$1" != --version ] || { echo ${version}; exit; }\nexec ${process.execPath} "$@"\n`,
      { mode: 0o755 },
    );
    const run = spawnSync(capture, ['--', 'true'], {
      env: { ...process.env, CAPTURE_NODE: node },
      encoding: 'utf8',
    });
    expect(run.status).toBe(status);
    const said = `capture: Node ${version} is too old, 20.19 or later is needed (try: put it into PATH, or set CAPTURE_NODE)\n`;
    expect(run.stderr).toBe(status === 0 ? '' : said);
  });

  test.each([
    ['--nofile=20', 'of open files (ulimit -n) is 20, and 64 is needed (try: ulimit -n 64)'],
    [
      '--fsize=51200',
      'of the size of a file in bytes (ulimit -f) is 51200, and 262144 is needed (try: ulimit -f unlimited)',
    ],
    [
      '--as=512000000',
      'of memory in bytes (ulimit -v) is 512000000, and 1610612736 is needed (try: ulimit -v unlimited)',
    ],
  ])('with %s ends with 70, and says in one line what it needs', (limit, said) => {
    const run = spawnSync('prlimit', [limit, capture, '--', 'true'], { encoding: 'utf8' });
    expect(run.stderr).toBe(`capture: the limit ${said}\n`);
    expect(run.status).toBe(70);
  });

  test('runs the Node that CAPTURE_NODE names', () => {
    const node = path.join(dir, 'my-node');
    fs.writeFileSync(node, `#!/bin/sh\necho '{"args":["mine"]}'\n`, { mode: 0o755 });
    expect(report(capture, [], { CAPTURE_NODE: node }).args).toEqual(['mine']);
  });

  test.each([
    ['there is no Node', (): NodeJS.ProcessEnv => ({ CAPTURE_NODE: 'no-such-node' }), 70, 'no-such-node'],
    ['Node is another program', (): NodeJS.ProcessEnv => ({ CAPTURE_NODE: 'false' }), 70, 'false'],
    [
      'it is not built',
      () => (fs.rmSync(path.join(dir, 'package/dist'), { recursive: true }), {}),
      70,
      'not built',
    ],
    // Node ends an empty program with 0: the task would count as done, and have never run.
    [
      'its program is empty',
      () => (fs.truncateSync(path.join(dir, 'package/dist/capture.cjs')), {}),
      70,
      'missing or empty',
    ],
  ])('says in one line that %s', (_, breakIt, status, words) => {
    const done = spawnSync(capture, [], { env: { ...process.env, ...breakIt() }, encoding: 'utf8' });
    expect(done.status).toBe(status);
    expect(done.stderr).toContain(words);
    expect(done.stderr.trim().split('\n')).toHaveLength(1);
  });

  test('never lets a SIGUSR1 open a debug port, however early it comes', async () => {
    fs.writeFileSync(
      path.join(dir, 'package/dist/capture.cjs'),
      `const inspector = require('node:inspector');
       const seen = setInterval(() => undefined, 1000);
       process.on('SIGUSR2', () => { console.log(String(inspector.url())); clearInterval(seen); });
       process.kill(process.pid, 'SIGUSR1');`,
    );
    const child = spawn(capture, [], { stdio: ['ignore', 'pipe', 'pipe'] });
    const { status, stdout, stderr } = watch(child);
    await until('tried', () => stderr().includes('Starting inspector on 192.0.2.1:9229 failed'));
    child.kill('SIGUSR2');
    expect(await status).toBe(0);
    expect(stdout().trim()).toBe('undefined');
  });
});
