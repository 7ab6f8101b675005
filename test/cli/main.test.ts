// The command line as a process: what stands on its descriptors, and its exit status.
import { spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { told, unstamped } from '../support/messages.ts';
import { BUNDLED } from './bundled.ts';
import { NOBODY, tmpdirForAll } from '../support/other-user.ts';

let dir = '';
let program = '';

beforeAll(async () => {
  dir = fs.mkdtempSync(path.join(tmpdirForAll(), 'capture-main-'));
  fs.chmodSync(dir, 0o755);
  await build({
    entryPoints: {
      capture: 'test/cli/fixtures/run-command-line.ts',
      sidecar: 'test/cli/fixtures/no-sidecar.ts',
      speaker: 'test/cli/fixtures/speaker.ts',
    },
    outdir: dir,
    outExtension: { '.js': '.mjs' },
    ...BUNDLED,
    splitting: true,
  });
  program = path.join(dir, 'capture.mjs');
  fs.writeFileSync(path.join(dir, 'sidecar.cjs'), "import('./sidecar.mjs');");
});
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

function capture(
  args: readonly string[],
  options: { readonly env?: Record<string, string>; readonly cwd?: string; readonly uid?: number } = {},
): SpawnSyncReturns<string> {
  const env = { PATH: process.env['PATH'], HOME: dir, ...options.env };
  return spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', cwd: dir, ...options, env });
}

describe('capture', () => {
  it('prints its help and its version on stdout', () => {
    expect(capture(['--help'])).toMatchObject({
      status: 0,
      stderr: '',
      stdout: expect.stringContaining('Usage: capture'),
    });
    expect(capture(['--version'])).toMatchObject({ status: 0, stderr: '', stdout: '1.2.3\n' });
  });

  it('says all mistakes on stderr, each with what to try, and exits with 64', () => {
    const { status, stdout, stderr } = capture(['--grace', '5', '-r', '/x', '--', './task']);
    expect({ status, stdout }).toEqual({ status: 64, stdout: '' });
    expect(unstamped(stderr)).toBe(
      "capture: --results '/x': patterns are relative to the work directory, this one is absolute\n" +
        `  try: name files of the work directory (${dir}), or choose another with --workdir\n` +
        "capture: --grace '5': not a duration: it needs a unit, ms, s, m, h or d\n" +
        '  try: --grace 5s\n',
    );
  });

  it('puts the time before each message when stderr is no terminal', () => {
    const { stderr } = capture(['--', 'no-such-task']);
    expect(stderr).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z capture: warning: nothing is declared/);
  });

  it.each<[string, string[], Record<string, string>]>([
    ['--log-format json', ['--log-format', 'json'], {}],
    ['--json', ['--json'], { CAPTURE_LOG_FORMAT: 'no-format' }],
    ['--log-format json', ['--log-format', 'json'], { CAPTURE_JSON: 'no' }],
    ['CAPTURE_LOG_FORMAT=json', [], { CAPTURE_LOG_FORMAT: 'json' }],
  ])('says mistakes as JSON lines with %s', (_, options, env) => {
    const { status, stderr } = capture([...options, '--grace', '5', '--no-such', '--', './task'], { env });
    expect(status).toBe(64);
    expect(told(stderr)).toMatchObject([
      { event: 'mistake', level: 50, msg: 'unknown option --no-such' },
      { event: 'mistake', level: 50, msg: expect.stringMatching(/^--grace '5'/), hint: '--grace 5s' },
    ]);
    expect(stderr.trim().split('\n')).toHaveLength(2);
  });

  it('refuses a work directory that may not be written', () => {
    const closed = path.join(dir, 'closed');
    fs.mkdirSync(closed);
    fs.chmodSync(closed, 0o555);
    // No permission stops root.
    const uid = process.getuid?.() === 0 ? NOBODY : undefined;
    const { status, stderr } = capture(['--workdir', closed, '--', './task'], { uid });
    expect(status).toBe(64);
    expect(stderr).toContain(
      `capture: cannot work in ${closed}: permission denied: its owner is user ${process.getuid?.()}, its mode 555, and you are user ${uid ?? process.getuid?.()}`,
    );
    expect(stderr).toContain(uid === undefined ? `try: chmod u+rwx ${closed}` : 'name one with --workdir');
    expect(stderr).not.toContain('mkdir');
  });

  it('refuses to start in a directory that is gone', () => {
    const gone = path.join(dir, 'gone');
    fs.mkdirSync(gone);
    const { status, stderr } = spawnSync(
      '/bin/sh',
      ['-c', `cd '${gone}' && rmdir '${gone}' && exec "$0" "$1" -- true`, process.execPath, program],
      {
        encoding: 'utf8',
      },
    );
    expect({ status, stderr }).toEqual({
      status: 64,
      stderr: expect.stringContaining('the current directory is gone'),
    });
  });

  it('passes the status of a failure on, with its hint', () => {
    const { status, stderr } = capture(['-r', 'a', '--to', '/s', '--', 'no-such-task']);
    expect(status).toBe(127);
    expect(stderr).toContain('capture: cannot run no-such-task: no such command in PATH\n  try: ');
  });

  it('says its warnings first, as JSON when asked to', () => {
    const { stderr } = capture(['--log-format', 'json', '--', 'no-such-task']);
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { level: number; msg: string; hint?: string });
    expect(lines).toMatchObject([
      { level: 40, msg: 'nothing is declared: nothing is kept', hint: expect.stringContaining('--results') },
      { event: 'refused', status: 127, level: 50, msg: 'cannot run no-such-task: no such command in PATH' },
    ]);
  });

  it('writes into the log file, and errors on stderr as well', () => {
    const file = path.join(dir, 'capture.log');
    const { stderr } = capture(['--log-file', 'capture.log', '--', 'no-such-task']);
    expect(unstamped(stderr)).toMatch(/^capture: cannot run no-such-task: /);
    expect(stderr).not.toContain('warning');
    expect(fs.readFileSync(file, 'utf8')).toMatch(
      /^\d{4}-\d\d-\d\dT[\d:.]+Z capture: warning: nothing is declared/,
    );
  });

  it('exits with 64 when the log file cannot be opened', () => {
    const { status, stderr } = capture(['--log-file', 'no/such/dir/x.log', '--', 'true']);
    expect({ status, stderr }).toEqual({
      status: 64,
      stderr: expect.stringContaining('cannot write the log file'),
    });
  });
});

describe('messages', () => {
  it('leave the descriptors that the task inherits as they were', async () => {
    // A pipe that libuv has touched is non-blocking for everybody who shares it.
    const child = spawn(
      '/bin/sh',
      [
        '-c',
        '"$0" "$1" -- ./task; grep ^flags: /proc/self/fdinfo/2 /proc/self/fdinfo/0',
        process.execPath,
        program,
      ],
      {
        stdio: ['pipe', 'pipe', 'pipe'],
        env: { PATH: process.env['PATH'], SLURM_STEP_ID: '0', SLURM_STEP_NUM_TASKS: '2' },
      },
    );
    let out = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.resume();
    await once(child, 'close');
    const flags = [...out.matchAll(/flags:\s+(\d+)/g)].map((match) => Number.parseInt(match[1] ?? '', 8));
    expect(flags).toHaveLength(2);
    for (const flag of flags) expect(flag & fs.constants.O_NONBLOCK).toBe(0);
  });

  it('are given up, and the exit status stands, when nobody reads them any more', async () => {
    const command = 'read go; "$0" "$1" --grace 5 -- ./task';
    const child = spawn('/bin/sh', ['-c', command, process.execPath, program], {
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    child.stderr.destroy();
    await once(child.stderr, 'close');
    child.stdin.end('go\n');
    expect(await once(child, 'exit')).toEqual([64, null]);
  });

  it('are complete on a pipe that another process made non-blocking, with a slow reader', async () => {
    // The reader, a libuv stream, is slower than the writer: the pipe holds 64 KiB.
    const lines = 2000;
    const child = spawn(process.execPath, [path.join(dir, 'speaker.mjs'), String(lines)], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let text = '';
    child.stderr.on('data', (chunk: Buffer) => (text += chunk.toString()));
    await once(child, 'close');
    expect(
      unstamped(text)
        .split('\n')
        .filter((line) => line.startsWith('capture: line')),
    ).toHaveLength(lines);
  });
});
