// The sidecar starts before the launcher has read its options (launch/sidecar-start.ts): one that was started for
// nothing is gone at once, and has done nothing.
import { fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, openPlace, until, type Place } from './support.ts';

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

it.each([
  ['an option is wrong', ['--grace', '5', '-r', 'r.dat', '--', 'true'], 64, "--grace '5'"],
  ['the task is no program', ['-r', 'r.dat', '--', './no-such-task'], 127, 'no-such-task'],
])('if %s, nothing is left behind, and only that is said', async (_, args, status, words) => {
  const mark = `CAPTURE_TEST_MARK=${Math.random()}`;
  const [name = '', value = ''] = mark.split('=');
  const done = spawnSync(BIN, ['--to', place.store, ...args], {
    cwd: place.dir,
    env: { ...process.env, [name]: value },
    encoding: 'utf8',
  });
  expect(done.status).toBe(status);
  expect(done.stderr).toContain(words);
  expect(done.stderr).not.toMatch(/sidecar|Error:/);
  expect(fs.existsSync(place.at('.capture'))).toBe(false);
  expect(fs.existsSync(place.store)).toBe(false);
  await until(() => processesWith(mark).length === 0, 'all processes are gone', 10_000);
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
