// What capture encrypts is opened by Debian's age and zstd, and what age encrypts is opened by capture.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { noise, openPlace, type Place } from '../e2e/support.ts';

const FILES = ['-r', 'r.dat', '-r', 'noise.dat', '-k', 'k.chk', '--index', '7', '--task-name', 't'];
const TASK = 'seq 200000 >r.dat; cp "$NOISE" noise.dat; : >k.chk';

let place: Place;
let recipients: readonly string[];
const at = (name: string): string => path.join(place.dir, name);
beforeEach(() => {
  place = openPlace();
  recipients = ['run', 'archive'].map((name) => {
    execFileSync('age-keygen', ['-o', at(name)], { stdio: 'ignore' });
    return execFileSync('age-keygen', ['-y', at(name)], { encoding: 'utf8' }).trim();
  });
  fs.writeFileSync(at('noise'), noise(20 * 2 ** 20 + 1, 3));
});
afterEach(() => place.close());

const opened = (key: string, identity: string): Buffer =>
  execFileSync(
    'sh',
    [
      '-c',
      'age -d -i "$0" <"$1" | if [ "$2" = zst ]; then zstd -d; else cat; fi',
      at(identity),
      path.join(place.store, key),
      key.includes('.zst') ? 'zst' : '',
    ],
    { maxBuffer: 2 ** 26 },
  );

it.each(['run', 'archive'])('age -d -i %s | zstd -d gives each file', async (identity) => {
  const run = place.run([...FILES, ...recipients.flatMap((one) => ['--encrypt', one])], ['sh', '-c', TASK], {
    NOISE: at('noise'),
  });
  expect(await run.status, run.stderr()).toBe(0);
  const lines = Array.from({ length: 200_000 }, (_, n) => `${n + 1}\n`).join('');
  expect(opened('r.dat.7.zst.age', identity).toString()).toBe(lines);
  expect(opened('noise.dat.7.age', identity).equals(fs.readFileSync(at('noise')))).toBe(true);
  expect(opened('k.chk.t.7.1-1.age', identity).length).toBe(0);
});

it('age refuses one changed byte, as capture does', async () => {
  const run = place.run([...FILES, '--encrypt', recipients[0] ?? ''], ['sh', '-c', TASK], {
    NOISE: at('noise'),
  });
  expect(await run.status, run.stderr()).toBe(0);
  const file = path.join(place.store, 'r.dat.7.zst.age');
  const bytes = fs.readFileSync(file);
  bytes[bytes.length - 20] = (bytes.at(-20) ?? 0) ^ 1;
  fs.writeFileSync(file, bytes);
  expect(() => opened('r.dat.7.zst.age', 'run')).toThrow(/age/);
  const cat = place.capture(['cat', place.store, '7', 'r.dat', '--identity', at('run')]);
  expect(await cat.status).toBe(1);
});

it('an input that age has encrypted reaches the task decrypted', async () => {
  fs.mkdirSync(place.store);
  execFileSync('age', ['-r', recipients[0] ?? '', '-o', path.join(place.store, 'in.dat.age'), at('noise')]);
  const run = place.run(['-i', 'in.dat', '--identity', at('run')], ['cmp', 'in.dat', at('noise')]);
  expect(await run.status, run.stderr()).toBe(0);
});
