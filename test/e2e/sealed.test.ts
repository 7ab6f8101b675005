// --encrypt and --identity through the whole program: what the store holds, who may go on, and who may read.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newIdentity, recipientOf } from '../../src/seal/age.ts';
import { md5Of, MiB } from '../read/read-all.ts';
import { openS3Place } from './s3-place.ts';
import { BIN, noise, openPlace, type Place, type Run, sidecarOf, until } from './support.ts';

const PROJECT = path.resolve(import.meta.dirname, '../..');
/** Stands in every file that the task writes, and in its output. */
const MARK = 'energy of the melt';
const DECLARED =
  '-r final.dat -r noise.dat -k state.chk --companions run.log --task-name sim --index 7'.split(' ');

let place: Place;
let key: { readonly run: string; readonly archive: string; readonly other: string };
let to: readonly string[];
beforeEach(async () => {
  place = openPlace();
  const identities = [await newIdentity(), await newIdentity(), await newIdentity()];
  const [run = '', archive = '', other = ''] = identities.map((identity, at) => {
    const file = path.join(place.dir, `${at}.key`);
    fs.writeFileSync(file, `# public key: none of its business\n${identity}\n`);
    return file;
  });
  key = { run, archive, other };
  const recipients = await Promise.all(identities.slice(0, 2).map(recipientOf));
  to = recipients.flatMap((one) => ['--encrypt', one]);
  fs.writeFileSync(path.join(place.dir, 'noise'), noise(9 * MiB, 1));
});
afterEach(() => place.close());

/** Ends with 75 after its first step, and is done after its second. A file: the command line stays readable. */
const TASK = `exec 9>>run.log
[ ! -e state.chk ] || tail -n 1 state.chk
echo "${MARK}" >&9
seq 3000 | sed 's/$/ ${MARK}/' >>state.chk
seq 3000 | sed 's/$/ ${MARK}/' >final.dat
cp "$NOISE" noise.dat
echo "${MARK} on stdout"
[ $(wc -l <state.chk) -ge 6000 ] || exit 75
`;

/** Its stdout goes to a file: what goes to a pipe is only its reader's. */
const run = (options: readonly string[], task = TASK): Run => {
  const script = path.join(place.dir, 'task.sh');
  fs.writeFileSync(script, task);
  const words = ['--to', place.store, ...DECLARED, '--log-output', '--again-status', '75', ...options];
  const toFile = ['sh', '-c', `exec "$0" "$@" >'${out()}'`, BIN, ...words, '--', 'sh', script];
  return place.exec(toFile, { NOISE: path.join(place.dir, 'noise') });
};
const out = (): string => path.join(place.dir, 'out');
const printed = (): string => (fs.existsSync(out()) ? fs.readFileSync(out(), 'utf8') : '');

async function ended(one: Run, status: number): Promise<Run> {
  expect(await one.status, one.stderr()).toBe(status);
  return one;
}

function filesBelow(dir: string): readonly string[] {
  return fs
    .readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(dir, name))
    .filter((file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile());
}

const command = (...args: readonly string[]): Run => place.capture(args);
const LINES = Array.from({ length: 3000 }, (_, n) => `${n + 1} ${MARK}\n`).join('');

it('stores nothing that is readable, and the next attempt resumes with either identity', async () => {
  await ended(run(to), 75);
  const secrets = [
    MARK,
    md5Of(Buffer.from(LINES)),
    md5Of(noise(9 * MiB, 1)),
    String(LINES.length),
    String(9 * MiB),
  ];
  for (const file of filesBelow(place.store)) {
    const text = fs.readFileSync(file, 'latin1');
    for (const secret of secrets) expect(text.includes(secret), `${file} holds ${secret}`).toBe(false);
  }
  const names = place.keys();
  expect(names).toEqual(
    expect.arrayContaining(['final.dat.7.zst.age', 'noise.dat.7.age', 'state.chk.sim.7.1-1.zst.age']),
  );
  expect(names.filter((name) => !name.endsWith('.age'))).toEqual([]);
  const before = fs.statSync(path.join(place.store, 'noise.dat.7.age')).ino;

  place.freshWork();
  const second = await ended(run([...to, '--identity', key.run]), 0);
  expect(printed()).toContain(`3000 ${MARK}`);
  expect(second.stderr()).toMatch(/resumed from checkpoint 1-\d/);
  // What has not changed is not sent again.
  expect(fs.statSync(path.join(place.store, 'noise.dat.7.age')).ino).toBe(before);

  const cat = await ended(command('cat', place.store, '7', 'final.dat', '--identity', key.archive), 0);
  expect(cat.stdout()).toBe(LINES);
  const logs = await ended(command('logs', place.store, '7', '--identity', key.archive), 0);
  expect(logs.stdout()).toContain(`${MARK} on stdout`);
  await ended(command('gather', place.store, path.join(place.dir, 'all'), '--identity', key.archive), 0);
  const gathered = filesBelow(path.join(place.dir, 'all')).map((file) => md5Of(fs.readFileSync(file)));
  expect(gathered.toSorted()).toEqual([md5Of(Buffer.from(LINES)), md5Of(noise(9 * MiB, 1))].toSorted());
  await ended(command('verify', place.store, '--identity-command', `cat ${key.archive}`), 0);
  place.freshWork();
  const restored = command(
    'restore',
    '--to',
    place.store,
    ...DECLARED,
    '-i',
    'final.dat',
    '--identity',
    key.archive,
  );
  await ended(restored, 0);
  expect(fs.readFileSync(place.at('final.dat'), 'utf8')).toBe(LINES);
});

describe('is refused before the task starts:', () => {
  const started = (): boolean => fs.existsSync(place.at('started'));
  const refused = async (options: readonly string[], status: number): Promise<string> => {
    const one = await ended(run(options, 'echo 1 >started'), status);
    expect(started()).toBe(false);
    expect(one.stderr()).toMatch(/\n +try: /);
    return one.stderr();
  };

  it.each([
    ['a malformed recipient', ['--encrypt', 'age1nobody'], "'age1nobody': no recipient of age"],
    ['a recipient with a wrong letter', ['--encrypt', `age1${'q'.repeat(58)}`], 'nothing can be sealed here'],
    ['a passphrase', ['--encrypt', 'correct horse'], 'a passphrase is for people'],
    ['an empty file of recipients', ['--encrypt', '@/dev/null'], 'names no recipient'],
    ['no such file of recipients', ['--encrypt', '@nowhere'], 'no such file'],
  ])('%s', async (_what, options, says) => {
    expect(await refused(options, 64)).toContain(says);
    expect(fs.existsSync(place.store)).toBe(false);
  });

  it('an identity with a passphrase, or none', async () => {
    const file = path.join(place.dir, 'bad.key');
    fs.writeFileSync(file, 'age-encryption.org/v1\n-> scrypt x 18\n');
    expect(await refused([...to, '--identity', file], 64)).toContain('has a passphrase');
    fs.writeFileSync(file, '# nothing\n');
    expect(await refused([...to, '--identity', file], 64)).toContain('holds no identity');
    fs.writeFileSync(file, 'AGE-SECRET-KEY-1QQQQ\n');
    const text = await refused([...to, '--identity', file], 64);
    expect(text).toContain('is none of age');
    expect(text).not.toContain('1QQQQ');
    expect(await refused([...to, '--identity-command', 'echo no >&2; exit 1'], 64)).toContain(
      'cannot read the identity: no',
    );
  });

  it('a library that fails', async () => {
    const installed = path.join(place.dir, 'installed');
    for (const name of ['bin', 'dist', 'package.json'])
      fs.cpSync(path.join(PROJECT, name), path.join(installed, name), { recursive: true });
    fs.symlinkSync(path.join(PROJECT, 'node_modules'), path.join(installed, 'node_modules'));
    fs.writeFileSync(path.join(installed, 'dist/age.cjs'), 'throw new Error("no such luck")');
    const words = [path.join(installed, 'bin/capture'), '--to', place.store, ...DECLARED, ...to];
    const one = await ended(place.exec([...words, '--', 'touch', place.at('started')]), 64);
    expect(one.stderr()).toContain('nothing can be sealed here: no such luck');
    expect(started()).toBe(false);
  });

  it('another sealing than that of earlier attempts, and another identity', async () => {
    await ended(run(to), 75);
    const claims = filesBelow(path.join(place.store, '.capture/sim'));
    const [first = '', second = ''] = to.filter((word) => word !== '--encrypt');
    expect(await refused([], 64)).toMatch(
      new RegExp(`no --encrypt is given\\n +try: --encrypt ${first} --encrypt ${second}\\n`),
    );
    for (const options of [to, [...to, '--identity', key.other]]) {
      const text = await refused(options, 69);
      expect(text).toContain(first);
      expect(text).toContain(second);
    }
    expect(filesBelow(path.join(place.store, '.capture/sim'))).toEqual(claims);

    const other = run(['--index', '8'], 'echo 1 >final.dat; exit 75');
    await ended(other, 75);
    expect(await refused([...to, '--index', '8'], 64)).toContain('has stored in plain');
  });
});

it('a command without an identity, or with a wrong one, is told whose could open it', async () => {
  await ended(run(to), 75);
  const first = to[1] ?? '';
  for (const words of [
    ['cat', place.store, '7', 'final.dat'],
    ['verify', place.store],
    ['logs', place.store, '7'],
    ['gather', place.store, path.join(place.dir, 'all'), '--incomplete'],
  ]) {
    const none = await ended(command(...words), 69);
    expect(none.stderr()).toContain('--identity <file>');
    const wrong = await ended(command(...words, '--identity', key.other), 69);
    expect(wrong.stderr(), words[0]).toContain(first);
  }
  const ls = await ended(command('ls', place.store, '7'), 0);
  expect(ls.stdout()).toMatch(/result +\S+ \S+ +sealed +final\.dat\.7\.zst\.age/);
  const status = await ended(command('status', place.store, '--identity', key.archive), 1);
  expect(status.stdout()).toContain('7 ');
});

it('a report shows a sealed array to anybody, and the sizes of its results to an identity', async () => {
  await ended(run(to), 75);
  const page = path.join(place.dir, 'report.html');
  const bytesIn = async (...words: readonly string[]): Promise<number | undefined> => {
    await ended(command('report', place.store, '-o', page, ...words), 0);
    const [, packed = ''] = /id="entries">([^<]+)</.exec(fs.readFileSync(page, 'utf8')) ?? [];
    const entries: unknown = JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString());
    expect(entries).toMatchObject([{ index: '7', state: 'preempted', results: 2 }]);
    return (entries as readonly { readonly bytes: number }[])[0]?.bytes;
  };
  const size = LINES.length + 9 * MiB;
  expect(await bytesIn()).not.toBe(size);
  expect(await bytesIn('--identity', key.archive)).toBe(size);
  expect(await bytesIn('--identity', key.run)).toBe(size);
});

it('one changed byte of an object is never restored or gathered, and verify names it', async () => {
  await ended(run(to), 75);
  const file = path.join(place.store, 'final.dat.7.zst.age');
  const bytes = fs.readFileSync(file);
  for (const at of [30, 120, bytes.length - 40, bytes.length - 1]) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    fs.writeFileSync(file, changed);
    const cat = await ended(command('cat', place.store, '7', 'final.dat', '--identity', key.run), 1);
    expect(cat.stdout()).toBe('');
    const verify = await ended(command('verify', place.store, '--identity', key.run), 1);
    expect(verify.stdout()).toContain('final.dat');
  }
});

it('a sidecar that replaces a dead one goes on with what that one has recorded, without an identity', async () => {
  const one = run(to, 'echo 1 >state.chk; until [ -e go ]; do sleep 0.05; done; echo 2 >final.dat');
  const hasRecord = (): boolean =>
    fs.existsSync(place.store) && filesBelow(place.store).some((file) => file.endsWith('.checkpoint.json'));
  await until(hasRecord, 'the record of the checkpoint');
  const sidecar = sidecarOf(one.pid) ?? 0;
  process.kill(sidecar, 'SIGKILL');
  await until(() => ![undefined, sidecar].includes(sidecarOf(one.pid)), 'another sidecar');
  fs.writeFileSync(place.at('go'), '');
  await ended(one, 0);
  expect(one.stderr()).not.toContain('cannot be used');
  const ls = await ended(command('ls', place.store, '7', '--json', '--identity', key.archive), 0);
  const { results, checkpoints } = JSON.parse(ls.stdout()) as Record<
    'results' | 'checkpoints',
    readonly { readonly md5: string; readonly members: readonly { readonly md5: string }[] }[]
  >;
  expect(results.map(({ md5 }) => md5)).toEqual([md5Of(Buffer.from('2\n'))]);
  expect(checkpoints.at(-1)?.members.map(({ md5 }) => md5)).toEqual([md5Of(Buffer.from('1\n'))]);
});

it('an encrypted input is decrypted, if there is an identity, and else comes as it is if it is named so', async () => {
  const recipient = to[1] ?? '';
  const { newFileHeader } = await import('../../src/seal/age.ts');
  const { sealWhole } = await import('../../src/seal/payload.ts');
  fs.mkdirSync(place.store);
  const sealed = sealWhole(Buffer.from('seed 1\n'), await newFileHeader([recipient]));
  fs.writeFileSync(path.join(place.store, 'in.dat.age'), sealed);
  const opening = place.run(
    ['-i', 'in.dat', '-r', 'r.dat', '--identity', key.run],
    ['cp', 'in.dat', 'r.dat'],
  );
  await ended(opening, 0);
  expect(fs.readFileSync(path.join(place.store, 'r.dat.0'), 'utf8')).toBe('seed 1\n');
  place.freshWork();
  await ended(
    place.run(
      ['-i', 'in.dat.age', '--index', '2'],
      ['cmp', 'in.dat.age', path.join(place.store, 'in.dat.age')],
    ),
    0,
  );
});

it('capture keygen makes an identity that opens what its recipient gets', async () => {
  const made = execFileSync(BIN, ['keygen'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  const file = path.join(place.dir, 'made.key');
  fs.writeFileSync(file, made);
  const recipient = /^# public key: (age1\S+)$/m.exec(made)?.[1] ?? '';
  await ended(run(['--encrypt', recipient]), 75);
  const cat = await ended(command('cat', place.store, '7', 'final.dat', '--identity', file), 0);
  expect(cat.stdout()).toBe(LINES);
});

it('a large result goes to S3 in sealed parts, and is gathered as it was', async () => {
  const s3 = await openS3Place();
  try {
    const content = noise(30 * MiB + 5, 2);
    fs.writeFileSync(path.join(place.dir, 'big'), content);
    await ended(s3.run(['-r', 'r.dat', ...to], `cp '${place.dir}/big' r.dat`), 0);
    expect(s3.keys()).toEqual(['r.dat.0.age']);
    const parts = s3.server.served.filter(({ operation }) => operation === 'UploadPart');
    expect(parts.length).toBeGreaterThan(1);
    const url = s3.at[1] ?? '';
    const words = ['gather', url, path.join(place.dir, 'all'), '--path-style', '--identity', key.archive];
    await ended(s3.place.capture(words, s3.env), 0);
    const [file = ''] = filesBelow(path.join(place.dir, 'all'));
    expect(fs.readFileSync(file).equals(content)).toBe(true);
  } finally {
    await s3.close();
  }
});

describe('with keys of gpg, here a script,', () => {
  const FINGERPRINT = 'B93D80E6A740C44990860E0DA637541E26951300';
  const broken = (): string => path.join(place.dir, 'broken');
  const runWith = (options: readonly string[], task: string): Run => {
    const bin = path.join(place.dir, 'bin');
    fs.mkdirSync(bin, { recursive: true });
    if (!fs.existsSync(path.join(bin, 'gpg')))
      fs.symlinkSync(path.join(PROJECT, 'test/support/fake-gpg.sh'), path.join(bin, 'gpg'));
    fs.writeFileSync(path.join(place.dir, 'keys'), `pub:u::::::::::scESC:\nfpr:::::::::${FINGERPRINT}:\n`);
    return place.run(
      ['-r', 'final.dat', '--task-name', 'sim', '--index', '7', ...options],
      ['sh', '-c', task],
      {
        PATH: `${bin}:${process.env['PATH']}`,
        FAKE_KEYS: path.join(place.dir, 'keys'),
        FAKE_BROKEN: broken(),
      },
    );
  };
  const GPG = ['--encrypt', 'gpg:run@lab.example'];
  const FAILS = 'gpg cannot encrypt: gpg: no space \\x1b[2J left';

  it('a file that gpg cannot encrypt is stored once it can', async () => {
    const one = runWith(GPG, `touch '${broken()}'; echo 1 >final.dat; until [ -e go ]; do sleep 0.05; done`);
    await until(() => one.stderr().includes('is tried again'), 'a push that fails');
    expect(one.stderr()).toContain(`final.dat is not stored yet, and is tried again: ${FAILS}`);
    expect(one.stderr()).not.toContain('SECRET');
    expect(place.keys()).toEqual([]);
    fs.rmSync(broken());
    fs.writeFileSync(place.at('go'), '');
    await ended(one, 0);
    expect(place.keys()).toEqual(['final.dat.7.gpg']);
    expect(fs.readFileSync(path.join(place.store, 'final.dat.7.gpg'), 'utf8')).toBe('SEALED1\n');
  });

  it('a gpg that fails to the end is no success, and nothing is stored under the name of the file', async () => {
    const one = runWith([...GPG, '--drain-timeout', '1s'], `touch '${broken()}'; echo 1 >final.dat`);
    await ended(one, 74);
    expect(one.stderr()).toContain(FAILS);
    expect(place.keys()).toEqual([]);
  });

  it('an index stays with its kind of key', async () => {
    await ended(runWith(GPG, 'echo 1 >final.dat'), 0);
    const other = await ended(runWith(to, 'touch started'), 64);
    expect(other.stderr()).toContain('--encrypt names the other kind of key');
    expect(other.stderr()).toContain(`try: --encrypt gpg:${FINGERPRINT}`);
    expect(fs.existsSync(place.at('started'))).toBe(false);
  });
});
