// What capture encrypts is opened by Debian's gpg and zstd, and what gpg encrypts is opened by capture.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { newIdentity, recipientOf } from '../../src/seal/age.ts';
import { openS3Place } from '../e2e/s3-place.ts';
import { BIN, killTree, noise, openPlace, type Place, type Run, until } from '../e2e/support.ts';

const MiB = 2 ** 20;
const DECLARED = '-r r.dat -r noise.dat -k k.chk --index 7 --task-name t --log-output'.split(' ');
/** Its first attempt is killed, its second one resumes. */
const TASK = `[ ! -e k.chk ] || echo "resumed at $(wc -l <k.chk)"
seq 3000 >>k.chk
[ $(wc -l <k.chk) -ge 6000 ] || sleep 1000
seq 200000 >r.dat
cp "$NOISE" noise.dat
echo done`;
const LINES = Array.from({ length: 200_000 }, (_, n) => `${n + 1}\n`).join('');

/** A short path: a socket has a name of at most 108 bytes. */
const newHome = (): string => fs.mkdtempSync('/tmp/gpg-');
const inHome = (home: string): NodeJS.ProcessEnv => ({ ...process.env, GNUPGHOME: home });
function gpg(home: string, args: readonly string[], input?: Buffer): Buffer {
  const words = [
    '--batch',
    '--quiet',
    '--no-tty',
    '--pinentry-mode',
    'loopback',
    '--passphrase',
    '',
    ...args,
  ];
  const stdio = [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'] as const;
  return execFileSync('gpg', words, { env: inHome(home), input, stdio: [...stdio], maxBuffer: 2 ** 28 });
}

/** The homes of a job, of the archive, and of a machine that has only their public keys. */
let home: { readonly run: string; readonly archive: string; readonly none: string };
let to: readonly string[];
beforeAll(() => {
  home = { run: newHome(), archive: newHome(), none: newHome() };
  for (const name of ['run', 'archive'] as const) {
    gpg(home[name], [
      '--quick-gen-key',
      `${name} <${name}@lab.example>`,
      'future-default',
      'default',
      'never',
    ]);
    const keys = gpg(home[name], ['--export']);
    for (const other of Object.values(home)) gpg(other, ['--import'], keys);
  }
  to = ['--encrypt', 'gpg:run@lab.example', '--encrypt', 'gpg:archive@lab.example'];
});
const endAgents = (): void => {
  for (const one of Object.values(home)) execFileSync('gpgconf', ['--kill', 'all'], { env: inHome(one) });
};
afterAll(() => {
  endAgents();
  for (const one of Object.values(home)) fs.rmSync(one, { recursive: true });
});

let place: Place;
beforeEach(() => {
  place = openPlace();
  fs.writeFileSync(path.join(place.dir, 'noise'), noise(20 * MiB + 1, 3));
});
afterEach(() => place.close());

/** Its stdout goes to a file: what goes to a pipe is only its reader's. */
const run = (words: readonly string[], task = TASK, at = home.run): Run => {
  const all = [BIN, '--to', place.store, ...DECLARED, ...words, '--', 'sh', '-c', task];
  const toFile = ['sh', '-c', `exec "$0" "$@" >'${place.dir}/out'`, ...all];
  return place.exec(toFile, { GNUPGHOME: at, NOISE: path.join(place.dir, 'noise') });
};
const command = (words: readonly string[], at = home.archive): Run => place.capture(words, { GNUPGHOME: at });
async function ended(one: Run, status: number): Promise<Run> {
  expect(await one.status, one.stderr()).toBe(status);
  return one;
}
const stored = (key: string): string => path.join(place.store, key);
const opened = (key: string, at: string): Buffer =>
  execFileSync('sh', ['-c', `gpg -q -d <'${stored(key)}'${key.includes('.zst') ? ' | zstd -dq' : ''}`], {
    env: inHome(at),
    maxBuffer: 2 ** 28,
  });

it('a run that is killed resumes elsewhere, and both keys open all that it has stored', async () => {
  const killed = run(to);
  const records = stored('.capture/t/7');
  const hasCheckpoint = (): boolean =>
    fs.existsSync(records) && fs.readdirSync(records).some((name) => name.endsWith('.checkpoint.json'));
  await until(hasCheckpoint, 'a checkpoint');
  killTree(killed.pid);
  await killed.status;
  place.freshWork();

  const refused = async (words: readonly string[], status: number, at = home.run): Promise<string> =>
    (await ended(run(words, 'touch started', at), status)).stderr();
  const without = await refused(to, 69, home.none);
  const fingerprints = ['run', 'archive'].map(
    (name) => /^fpr:+(\w+)/m.exec(gpg(home.run, ['--list-keys', '--with-colons', name]).toString())?.[1],
  );
  for (const one of fingerprints) expect(without).toContain(`gpg:${one}`);
  expect(await refused([], 64)).toContain(`try: --encrypt gpg:${fingerprints[0]} --encrypt`);
  const age = await recipientOf(await newIdentity());
  expect(await refused(['--encrypt', age], 64)).toContain('the other kind of key');
  expect(await refused([...to, '--encrypt', age], 64)).toContain('of age and of gpg');
  expect(await refused(['--encrypt', 'gpg:nobody@lab.example'], 64)).toContain('No public key');
  expect(fs.existsSync(place.at('started'))).toBe(false);

  // The agent starts again with the restore, as a child of the run.
  endAgents();
  const second = await ended(run(to), 0);
  expect(second.stderr()).toMatch(/resumed from checkpoint 1-\d/);
  const names = place.keys();
  expect(names).toEqual(expect.arrayContaining(['noise.dat.7.gpg', 'r.dat.7.zst.gpg']));
  expect(names.filter((name) => !name.endsWith('.gpg'))).toEqual([]);
  for (const at of [home.run, home.archive]) {
    expect(opened('r.dat.7.zst.gpg', at).toString()).toBe(LINES);
    expect(opened('noise.dat.7.gpg', at).equals(noise(20 * MiB + 1, 3))).toBe(true);
  }

  const { store } = place;
  expect((await ended(command(['cat', store, '7', 'r.dat']), 0)).stdout()).toBe(LINES);
  const logs = await ended(command(['logs', store, '7']), 0);
  expect(logs.stdout()).toBe('resumed at 3000\ndone\n');
  const all = path.join(place.dir, 'all');
  await ended(command(['gather', store, all]), 0);
  expect(fs.readFileSync(path.join(all, '7/noise.dat')).equals(noise(20 * MiB + 1, 3))).toBe(true);
  expect((await ended(command(['verify', store]), 0)).stdout()).toContain('all whole');
  await ended(command(['status', store]), 0);
  await ended(command(['report', store, '-o', path.join(place.dir, 'report.html')]), 0);
  // What needs no content needs no key.
  for (const words of [
    ['status', store],
    ['ls', store, '7'],
    ['verify', store, '--fast'],
    ['wait', store],
  ])
    await ended(command(words, home.none), 0);
  for (const words of [
    ['cat', store, '7', 'r.dat'],
    ['verify', store],
    ['logs', store, '7'],
    ['gather', store, `${all}2`],
  ])
    expect((await ended(command(words, home.none), 69)).stderr()).toContain('gpg --list-secret-keys');
});

it('of a small object with one changed byte no wrong byte is ever given out or placed', async () => {
  await ended(run(['--encrypt', 'gpg:run@lab.example'], 'seq 60 >r.dat; : >noise.dat; : >k.chk'), 0);
  const key = fs.readdirSync(place.store).find((name) => name.startsWith('r.dat.7')) ?? '';
  const bytes = fs.readFileSync(stored(key));
  const right = opened(key, home.run).toString();
  // As an input under its plain name, no record says what it holds.
  const input = stored('in.dat.gpg');
  const sealed = gpg(
    home.run,
    ['--trust-model', 'always', '-r', 'run@lab.example', '-e'],
    Buffer.from(right),
  );
  let damaged = 0;
  const each7th = Array.from(
    { length: Math.ceil(Math.max(bytes.length, sealed.length) / 7) },
    (_, n) => 7 * n,
  );
  // Lengths in the packet of the session key: with another one, gpg writes nothing, and ends with 0.
  for (const at of [12, 13, 47, ...each7th]) {
    const flipped = (whole: Buffer): Buffer => {
      const changed = Buffer.from(whole);
      changed[at % whole.length] = (changed[at % whole.length] ?? 0) ^ 1;
      return changed;
    };
    fs.writeFileSync(stored(key), flipped(bytes));
    fs.writeFileSync(input, flipped(sealed));
    const cat = command(['cat', place.store, '7', 'r.dat'], home.run);
    place.freshWork();
    const taking = place.run(['-i', 'in.dat', '--index', '8', '--task-name', 't'], ['cat', 'in.dat'], {
      GNUPGHOME: home.run,
    });
    // oxlint-disable-next-line no-await-in-loop -- each with other bytes
    const [status, taken] = await Promise.all([cat.status, taking.status]);
    expect([status, cat.stdout()], `byte ${at}: ${cat.stderr()}`).toEqual(
      status === 0 ? [0, right] : [1, ''],
    );
    if (taken === 0) expect(taking.stdout(), `byte ${at}`).toBe(right);
    else expect([taken, taking.stdout()], `byte ${at}: ${taking.stderr()}`).toEqual([69, '']);
    damaged += status === 0 ? 0 : 1;
  }
  // gpg itself does not mind a few: the time in the literal packet, say.
  expect(damaged).toBeGreaterThan(bytes.length / 7 - 5);
}, 600_000);

it('an input that gpg has encrypted reaches the task decrypted', async () => {
  fs.mkdirSync(place.store);
  const words = ['--trust-model', 'always', '-r', 'run@lab.example', '-o', stored('in.dat.gpg'), '-e'];
  gpg(home.run, [...words, path.join(place.dir, 'noise')]);
  const cmp = ['cmp', 'in.dat', path.join(place.dir, 'noise')];
  for (const pattern of ['in.dat', '*.dat']) {
    place.freshWork();
    // oxlint-disable-next-line no-await-in-loop -- one work directory
    await ended(place.run(['-i', pattern], cmp, { GNUPGHOME: home.run }), 0);
  }
  place.freshWork();
  const without = await ended(place.run(['-i', 'in.dat'], cmp, { GNUPGHOME: home.none }), 69);
  expect(without.stderr()).toContain('gpg --list-secret-keys');
  place.freshWork();
  const asItIs = ['cmp', 'in.dat.gpg', stored('in.dat.gpg')];
  await ended(place.run(['-i', 'in.dat.gpg'], asItIs, { GNUPGHOME: home.run }), 0);
});

it('a large result goes to S3 in encrypted parts, and is gathered as it was', async () => {
  const s3 = await openS3Place();
  try {
    const content = noise(40 * MiB + 5, 2);
    fs.writeFileSync(path.join(place.dir, 'big'), content);
    const env = { ...s3.env, GNUPGHOME: home.run };
    await ended(s3.run(['-r', 'r.dat', ...to], `cp '${place.dir}/big' r.dat`, env), 0);
    expect(s3.keys()).toEqual(['r.dat.0.gpg']);
    expect(s3.server.served.filter(({ operation }) => operation === 'UploadPart').length).toBeGreaterThan(3);
    const all = path.join(place.dir, 'all');
    await ended(s3.place.capture(['gather', s3.at[1] ?? '', all, '--path-style'], env), 0);
    expect(fs.readFileSync(path.join(all, '0/r.dat')).equals(content)).toBe(true);
  } finally {
    await s3.close();
  }
});

it('a key with a passphrase opens once its agent has the passphrase, and nobody is asked for it', async () => {
  const locked = newHome();
  try {
    const words = ['--batch', '--quiet', '--pinentry-mode', 'loopback', '--passphrase', 'sesame'];
    const byHand = (...more: readonly string[]): void => {
      const made = spawnSync('gpg', [...words, ...more], { env: inHome(locked), encoding: 'utf8' });
      expect(made.status, made.stderr).toBe(0);
    };
    byHand('--quick-gen-key', 'locked <locked@lab.example>', 'future-default', 'default', 'never');
    execFileSync('gpgconf', ['--kill', 'all'], { env: inHome(locked) });
    await ended(run(['--encrypt', 'gpg:locked@lab.example'], 'seq 60 >r.dat; : >noise.dat', locked), 0);
    const cat = ['cat', place.store, '7', 'r.dat'];
    expect((await ended(command(cat, locked), 69)).stderr()).toContain('gpg-agent has the passphrase');
    const key = fs.readdirSync(place.store).find((name) => name.startsWith('r.dat.7')) ?? '';
    byHand('-o', path.join(place.dir, 'opened'), '-d', stored(key));
    await ended(command(cat, locked), 0);
  } finally {
    execFileSync('gpgconf', ['--kill', 'all'], { env: inHome(locked) });
    fs.rmSync(locked, { recursive: true });
  }
});
