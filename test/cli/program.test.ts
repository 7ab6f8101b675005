// The edge that all programs share: signals, what was thrown, and the exit status. Here with commands of its own.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { build } from 'esbuild';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { unstamped } from '../support/messages.ts';
import { BUNDLED } from './bundled.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
let program = '';
beforeAll(async () => {
  dir = testDir();
  program = path.join(dir.path, 'program.mjs');
  await build({
    entryPoints: ['test/cli/fixtures/three-commands.ts'],
    outfile: program,
    ...BUNDLED,
  });
});
afterAll(() => dir.remove());

/** With what it writes, and its first lines. */
async function begun(...args: readonly string[]): Promise<{ child: ChildProcess; said: Promise<string[]> }> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  await once(child.stdout, 'data');
  return { child, said };
}

it.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
  ['SIGHUP', 129],
] as const)(
  'the first %s lets a command close what it has open, and ends with %i',
  async (signal, status) => {
    const { child, said } = await begun('verify', 'x');
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([status, null]);
    const [out, errors = ''] = await said;
    expect(out).toBe('begun\nclosed\n');
    expect(unstamped(errors)).toBe(`capture: stopped by ${signal}\n`);
  },
);

it('the second one ends a command that does not hear the first', async () => {
  const { child, said } = await begun('wait', 'x');
  child.kill('SIGTERM');
  await once(child.stdout ?? child, 'data');
  child.kill('SIGINT');
  expect(await once(child, 'exit')).toEqual([130, null]);
  expect(await said).toEqual(['begun\nheard\n', '']);
});

it('mistakes are said on stderr, and in the log file only if it is there: its option may be one of them', () => {
  const file = path.join(dir.path, 'log');
  const args = [program, 'verify', 'x', '--log-file', file, '--pong'];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(status).toBe(64);
  expect(unstamped(stderr)).toMatch(/^capture: unknown option --pong\n/);
  expect(fs.existsSync(file)).toBe(false);
  fs.writeFileSync(file, '');
  const again = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect([again.status, unstamped(again.stderr)]).toEqual([64, unstamped(stderr)]);
  expect(unstamped(fs.readFileSync(file, 'utf8'))).toBe(unstamped(stderr));
});

it('what nobody has expected is told as a bug, with the place, and ends with 70', () => {
  const { status, stderr } = spawnSync(process.execPath, [program, 'verify', 'bug'], { encoding: 'utf8' });
  expect(status).toBe(70);
  expect(unstamped(stderr)).toMatch(
    /^capture: internal error: no such thing\n +try: report it as a bug, with this: at .*program\.mjs/,
  );
});

it.each([
  ['ends a command that looks into a store as it would end any other program', ['verify', 'x'], 141],
  ['has not failed a help', ['verify', '--help'], 0],
  ['has not failed a command that only prints', ['template'], 0],
] as const)('a reader that has gone away %s', async (_, args, status) => {
  const script = 'read go; exec "$0" "$@"';
  const child = spawn('/bin/sh', ['-c', script, process.execPath, program, ...args]);
  const said = text(child.stderr);
  child.stdout.destroy();
  await once(child.stdout, 'close');
  child.stdin.end('go\n');
  expect(await once(child, 'exit')).toEqual([status, null]);
  expect(await said).toBe('');
});
