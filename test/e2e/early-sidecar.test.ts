// The sidecar starts before the launcher has read its options (launch/sidecar-start.ts): one that was started for
// nothing is gone at once, and has done nothing.
import { fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, openPlace, sidecarOf, until, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

/** Processes that have this in their environment. */
function processesWith(variable: string): readonly string[] {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return fs.readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(variable);
      } catch {
        return false; // gone meanwhile
      }
    });
}

/** An environment by which all processes of a run are found. */
function marked(): { readonly mark: string; readonly env: NodeJS.ProcessEnv } {
  const value = String(Math.random());
  return { mark: `CAPTURE_TEST_MARK=${value}`, env: { ...process.env, CAPTURE_TEST_MARK: value } };
}

it.each([
  ['an option is wrong', ['--grace', '5', '-r', 'r.dat', '--', 'true'], 64, "--grace '5'"],
  ['the task is no program', ['-r', 'r.dat', '--', './no-such-task'], 127, 'no-such-task'],
])('if %s, nothing is left behind, and only that is said', async (_, args, status, words) => {
  const { mark, env } = marked();
  const done = spawnSync(BIN, ['--to', place.store, ...args], { cwd: place.dir, env, encoding: 'utf8' });
  expect(done.status).toBe(status);
  expect(done.stderr).toContain(words);
  expect(done.stderr).not.toMatch(/sidecar|Error:/);
  expect(fs.existsSync(place.at('.capture'))).toBe(false);
  expect(fs.existsSync(place.store)).toBe(false);
  await until(() => processesWith(mark).length === 0, 'all processes are gone', 10_000);
});

it('a sidecar answers whether it hangs, also before it has its settings', async () => {
  const sidecar = fork(path.resolve('dist/sidecar.cjs'), { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  await once(sidecar, 'message');
  sidecar.send({ kind: 'ask' });
  expect(await once(sidecar, 'message')).toMatchObject([{ kind: 'alive' }, undefined]);
  sidecar.disconnect();
  await once(sidecar, 'exit');
});

it('a sidecar whose launcher goes before it has given its settings ends, and says nothing', async () => {
  const sidecar = fork(path.resolve('dist/sidecar.cjs'), {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    cwd: place.dir,
  });
  let said = '';
  sidecar.stderr?.on('data', (text) => (said += String(text)));
  await once(sidecar, 'message');
  sidecar.disconnect();
  expect(await once(sidecar, 'exit')).toEqual([0, null]);
  expect(said).toBe('');
});

it('a start that ends in a mistake kills its sidecar: one that hangs, too', async () => {
  const { mark, env } = marked();
  const hang = place.at('hang.cjs');
  fs.writeFileSync(hang, "if (/sidecar/.test(process.argv[1])) process.kill(process.pid, 'SIGSTOP');");
  const child = spawn(BIN, ['--grace', '5', '-r', 'r.dat', '--', 'true'], {
    cwd: place.dir,
    env: { ...env, NODE_OPTIONS: `--require=${hang}` },
    stdio: 'ignore',
  });
  expect(await once(child, 'exit')).toEqual([64, null]);
  await until(() => processesWith(mark).length === 0, 'all processes are gone', 10_000);
});

it.each(['SIGKILL', 'SIGINT', 'SIGTERM'] as const)(
  'a launcher that gets %s as soon as its sidecar exists leaves no process',
  async (signal) => {
    const { mark, env } = marked();
    const line = ['--to', place.store, '-r', 'r.dat', '--', 'sleep', '1000'];
    const child = spawn(BIN, line, { cwd: place.dir, env, stdio: 'ignore' });
    const ended = once(child, 'exit');
    await until(() => sidecarOf(child.pid ?? 0) !== undefined, 'the sidecar exists');
    child.kill(signal);
    const [status] = await ended;
    expect(status).not.toBe(0);
    await until(() => processesWith(mark).length === 0, 'all processes are gone', 10_000);
  },
);
