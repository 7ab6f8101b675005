// What comes from outside is not believed: a store that somebody else has written to, names and links that
// lead out of the work directory, programs that play with them while they run. And no secret is ever told.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import {
  type CaptureRecord,
  type Generation,
  type StoredFile,
  textWithSum,
} from '../../src/model/format/records.ts';
import { openS3Place, writeProfile } from './s3-place.ts';
import { programForAll, tmpdirForAll } from '../support/other-user.ts';
import { BIN, childrenOf, openPlace, type Place, type Run, until } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace({ below: tmpdirForAll() });
});
afterEach(() => place.close());

const OPTIONS = ['-k', 'k.chk', '--keep'];

/** One attempt that has stored the checkpoint `k.chk`. */
async function storeCheckpoint(): Promise<void> {
  const run = place.run(OPTIONS, ['sh', '-c', 'echo state > k.chk']);
  expect(await run.status, run.stderr()).toBe(0);
  place.freshWork();
}

/** The files of all records, newest last. */
const recordFiles = (): readonly string[] => {
  const dir = path.join(place.store, '.capture/sh/0');
  return fs
    .readdirSync(dir)
    .toSorted()
    .map((name) => path.join(dir, name));
};

/** Every record becomes what somebody else makes of it. */
function forge(change: (record: CaptureRecord) => object): void {
  for (const file of recordFiles()) {
    const { sum, ...record } = JSON.parse(fs.readFileSync(file, 'utf8')) as CaptureRecord & { sum: string };
    expect(sum).toMatch(/^[0-9a-f]{64}$/);
    fs.writeFileSync(file, textWithSum(change(record)));
  }
}

/** Files of other indices and of people, as keys, each with the text that it keeps. */
const OTHERS: Readonly<Record<string, string>> = {
  'inputs.tar': 'inputs of everybody',
  'precious.dat.9': 'a result of index 9',
  'precious.dat.9.partial-1': 'a staged result of index 9',
  'k.chk.sh.9.1-1': 'a checkpoint of index 9',
  'k.chk.other.0.1-1': 'a checkpoint of another task',
  'k.chk.sh.0.7-1': 'a checkpoint of a later attempt',
};

/** The members of every generation become these. */
function forgeMember(change: (member: StoredFile) => object): void {
  const forged = (generation: Generation): object => ({
    ...generation,
    members: generation.members.map(change),
  });
  forge((record) => ({ ...record, generations: record.generations.map(forged) }));
}

const next = (script = 'echo started'): Run => place.run(OPTIONS, ['sh', '-c', script]);
const md5 = (bytes: Uint8Array | string): string => createHash('md5').update(bytes).digest('hex');

describe('a forged record', () => {
  it.each(['../out', '/etc/out', 'a/../../out', '.capture/lock', 'a\0b', 'a//b', '.'])(
    'that names the member %j places nothing, and the run ends with 69',
    async (name) => {
      await storeCheckpoint();
      forgeMember((member) => ({ ...member, path: name }));
      const run = next();
      expect(await run.status, run.stderr()).toBe(69);
      expect(run.stdout()).toBe('');
      expect(run.stderr()).toMatch(/cannot be used \(it names k\.chk\.sh\.0\.1-1, which no attempt/);
      expect(fs.readdirSync(place.work)).toEqual(['.capture']);
      expect(fs.readdirSync(place.dir).toSorted()).toEqual(['store', 'work-1', 'work-2']);
    },
  );

  it('that names a file of its own in .capture places nothing, and the run ends with 69', async () => {
    await storeCheckpoint();
    forgeMember((member) => ({ ...member, path: '.capture/lock', key: '.capture/lock.sh.0.1-1' }));
    const run = next();
    expect(await run.status, run.stderr()).toBe(69);
    expect(run.stderr()).toMatch(/does not declare.*: \.capture\/lock\n/);
    expect(fs.readdirSync(place.work)).toEqual(['.capture']);
  });

  it('that names a member behind a link places nothing', async () => {
    await storeCheckpoint();
    const outside = fs.mkdirSync(path.join(place.dir, 'outside'), { recursive: true }) ?? '';
    fs.symlinkSync(outside, place.at('sub'));
    forgeMember((member) => ({ ...member, path: 'sub/k.chk', key: 'sub/k.chk.sh.0.1-1' }));
    const run = place.run([...OPTIONS, '-k', 'sub/k.chk'], ['sh', '-c', 'echo started']);
    expect(await run.status, run.stderr()).toBe(69);
    expect(run.stderr()).toContain('sub is a link');
    expect(fs.readdirSync(outside)).toEqual([]);
  });

  it.each(['../../etc/passwd', '/etc/passwd', 'a/../../b'])(
    'that names the key %j is not believed',
    async (key) => {
      await storeCheckpoint();
      forgeMember((member) => ({ ...member, key }));
      const run = next();
      expect(await run.status, run.stderr()).toBe(69);
      expect(run.stdout()).toBe('');
      expect(run.stderr()).toMatch(
        /record .* cannot be used \(generations\.0\.members\.0\.key: no key of this store\)/,
      );
    },
  );

  it.each(['/etc/passwd', '../../outside', 'a/../../b'])(
    'that names a link to %j makes no link',
    async (target) => {
      await storeCheckpoint();
      const key = fs.readdirSync(place.store).find((name) => name.startsWith('k.chk')) ?? '';
      fs.writeFileSync(path.join(place.store, key), target);
      forgeMember((member) => ({
        ...member,
        kind: 'link',
        size: target.length,
        md5: md5(target),
        compressed: false,
      }));
      const run = next();
      expect(await run.status, run.stderr()).toBe(69);
      expect(run.stderr()).toContain('it is a link that leaves the work directory');
      expect(fs.readdirSync(place.work)).toEqual(['.capture']);
    },
  );

  it('that names what this run does not declare places only what it declares', async () => {
    await storeCheckpoint();
    const evil = '#!/bin/sh\necho evil\n';
    const others = ['task', '.git/hooks/post-checkout', '.bashrc', 'z.log'].map((name) => {
      const key = `${name}.sh.0.1-1`;
      fs.mkdirSync(path.dirname(path.join(place.store, key)), { recursive: true });
      fs.writeFileSync(path.join(place.store, key), evil);
      return { path: name, key, size: evil.length, storedSize: evil.length, md5: md5(evil), mode: 0o755 };
    });
    forge((record) => ({
      ...record,
      generations: record.generations.map((generation) => ({
        ...generation,
        members: [...generation.members, ...others.map((one) => ({ ...generation.members[0], ...one }))],
      })),
    }));
    const options = [...OPTIONS, '-r', 'z.log'];
    const dry = place.run([...options, '--dry-run'], ['sh', '-c', ':']);
    expect(await dry.status, dry.stderr()).toBe(0);
    expect(`${dry.stdout()}${dry.stderr()}`).toMatch(/checkpoint 1-1 of [^\n]*: k\.chk \(\d+ B\), z\.log/);
    fs.writeFileSync(place.at('.bashrc'), 'mine');
    const run = place.run(options, ['sh', '-c', 'cat k.chk']);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('state\n');
    expect(run.stderr()).toMatch(
      /checkpoint 1-1 also holds what this run does not declare, and that is not restored: task, \.git\/hooks\/post-checkout, \.bashrc\n/,
    );
    expect(fs.readdirSync(place.work).toSorted()).toEqual(['.bashrc', '.capture', 'k.chk', 'z.log']);
    expect(fs.readFileSync(place.at('.bashrc'), 'utf8')).toBe('mine');
  });

  it('that asks for a setuid program gets a plain one', async () => {
    await storeCheckpoint();
    forgeMember((member) => ({ ...member, mode: 0o6755 }));
    const run = next('stat -c %a k.chk');
    expect(await run.status, run.stderr()).toBe(0);
    // Nor do others get more rights than they have in the store.
    expect(run.stdout()).toBe('744\n');
  });

  it('whose object unfolds to more than was recorded is corrupt, and fills no disk', async () => {
    await storeCheckpoint();
    const bomb = compress(Buffer.alloc(256 * 2 ** 20));
    fs.writeFileSync(path.join(place.store, 'k.chk.sh.0.1-1.zst'), bomb);
    forgeMember((member) => ({ ...member, key: 'k.chk.sh.0.1-1.zst', compressed: true, size: 5000 }));
    const run = next();
    expect(await run.status, run.stderr()).toBe(69);
    expect(run.stderr()).toMatch(/k\.chk is corrupt: it is longer than the 5000 bytes of its record/);
    expect(fs.readdirSync(place.at('.capture/restore'))).toEqual([]);
  });
});

describe('what belongs to others, named in a forged record of index 0, stays as it is', () => {
  /** Each is said to be a file of an old set, a staged result and a result, in a record that is the newest. */
  async function forgeOthers(): Promise<void> {
    const script = 'for i in 1 2 3; do echo $i > k.chk; echo $i > r.dat; done; exit 75';
    const run = place.run([...OPTIONS, '-r', 'r.dat'], ['sh', '-c', script]);
    expect(await run.status, run.stderr()).toBe(75);
    place.freshWork();
    for (const [key, text] of Object.entries(OTHERS)) fs.writeFileSync(path.join(place.store, key), text);
    const last = recordFiles().at(-1) ?? '';
    const { sum: _, ...record } = JSON.parse(fs.readFileSync(last, 'utf8')) as CaptureRecord & {
      sum: string;
    };
    const [newest] = record.generations;
    const [member] = newest?.members ?? [];
    const named = Object.entries(OTHERS).map(([key, text]) => ({
      ...member,
      path: key.replace(/\.(sh|other)\..*|\.9.*/, ''),
      key,
      size: text.length,
      storedSize: text.length,
      md5: md5(text),
    }));
    const sets = named.map((file, n) => ({ ...newest, attempt: 1, generation: 100 + n, members: [file] }));
    const forged = {
      ...record,
      kind: 'done',
      seq: record.seq + 1,
      generations: [...sets, ...record.generations],
      partials: named,
      results: [...record.results, ...named],
    };
    const name = `0001-${String(forged.seq).padStart(6, '0')}.done.json`;
    fs.writeFileSync(path.join(path.dirname(last), name), textWithSum(forged));
  }

  function expectOthers(): void {
    for (const [key, text] of Object.entries(OTHERS)) expect(place.text(key), key).toBe(text);
  }

  it('by a run of that index, which resumes from what the record before it says', async () => {
    await forgeOthers();
    const script = 'cat k.chk; for i in 4 5 6; do echo $i > k.chk; done; echo r > r.dat';
    const run = place.run(['-k', 'k.chk', '-r', 'r.dat'], ['sh', '-c', script]);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('3\n');
    expect(run.stderr()).toMatch(
      /record \.capture\/sh\/0\/0001-\d+\.done\.json cannot be used \(it names .*, which no attempt of task sh, index 0 can have stored\)/,
    );
    expectOthers();
  });

  it.each<[string, (store: string) => readonly string[]]>([
    ['prune', (store) => [store, '--checkpoints', '--partials', '--keep', '1']],
    ['rm', (store) => [store, '--index', '0', '--yes']],
    ['gather', (store) => [store, 'gathered']],
  ])('by capture %s', async (name, optionsOf) => {
    await forgeOthers();
    const run = place.capture([name, ...optionsOf(place.store), '--task-name', 'sh']);
    await run.status;
    expect(run.stderr(), run.stdout()).not.toMatch(/unknown option|try: capture/);
    expectOthers();
    if (name === 'rm') return;
    expect(run.stderr(), run.stdout()).toMatch(/which no attempt of task sh, index 0 can have stored/);
    const gathered = place.at('gathered');
    expect(fs.existsSync(gathered) ? fs.readdirSync(gathered) : []).not.toContain('precious.dat');
  });
});

it.each(['push', 'run'])(
  'a forged record of task sh makes prune delete no checkpoint of task run.sh, whose %s differs',
  async (what) => {
    const run = place.run(['-k', 'k', '--task-name', 'run.sh'], ['sh', '-c', 'echo precious > k; exit 1']);
    expect(await run.status, run.stderr()).toBe(1);
    const ours = path.join(place.store, '.capture/run.sh/0');
    const forged = path.join(place.store, '.capture/sh/0');
    fs.mkdirSync(forged, { recursive: true });
    for (const name of fs.readdirSync(ours)) {
      const { sum: _, ...record } = JSON.parse(
        fs.readFileSync(path.join(ours, name), 'utf8'),
      ) as CaptureRecord & {
        sum: string;
      };
      const generations = record.generations.map((generation) => ({
        ...generation,
        members: generation.members.map((member) => ({
          ...member,
          path: 'k.run',
          push: what === 'push' ? 'p' : member.push,
        })),
      }));
      const runToken = what === 'run' ? 't' : record.runToken;
      const as = record.kind === 'failed' ? { kind: 'done', end: { code: 0, status: 0 } } : {};
      const to = path.join(forged, name.replace(/failed-\d+/, 'done'));
      fs.writeFileSync(to, textWithSum({ ...record, ...as, task: 'sh', runToken, generations }));
    }
    const prune = place.capture(['prune', place.store, '--task-name', 'sh']);
    expect(await prune.status, prune.stderr()).toBe(0);
    expect(prune.stdout()).toMatch(/^deleted 0 objects of checkpoints/);
    expect(fs.readFileSync(path.join(place.store, 'k.run.sh.0.1-1'), 'utf8')).toBe('precious\n');
  },
);

describe('what stands in a directory store', () => {
  it('can be read by those who could read the file of the task, and records by nobody else', async () => {
    const script = 'umask 022; echo 1 > open.dat; echo 3 > k.chk; umask 077; echo 2 > own.dat';
    const run = place.run([...OPTIONS, '-r', '*.dat'], ['sh', '-c', script]);
    expect(await run.status, run.stderr()).toBe(0);
    const modeOf = (file: string): number => fs.statSync(file).mode & 0o777;
    const stored = (key: string): number => modeOf(path.join(place.store, key));
    expect([stored('open.dat.0'), stored('own.dat.0')]).toEqual([0o644, 0o600]);
    expect(new Set(recordFiles().map(modeOf))).toEqual(new Set([0o600]));
    expect([stored('.capture'), stored('.capture-store')]).toEqual([0o700, 0o700]);
  });

  it.each([
    [0o600, '600'],
    [0o640, '640'],
    [0o400, '600'],
    [0o777, '644'],
  ])(
    'of an input that was put there by hand, mode %o, is no wider in the work directory',
    async (mode, is) => {
      for (const name of ['in/key.pem', 'plain.pem']) {
        fs.mkdirSync(path.join(place.store, 'in'), { recursive: true });
        fs.writeFileSync(path.join(place.store, name), 'secret');
        fs.chmodSync(path.join(place.store, name), mode);
      }
      const options = ['-i', 'plain.pem', '-i', 'in/', '-r', 'r.dat'];
      const run = place.run(options, ['sh', '-c', 'stat -c %a plain.pem in/key.pem; echo 1 > r.dat']);
      expect(await run.status, run.stderr()).toBe(0);
      expect(run.stdout()).toBe(`${is}\n${is}\n`);
    },
  );

  it.skipIf(process.getuid?.() !== 0)(
    'is of a whole group if the directory is set-group-ID, whoever of it runs a command',
    async () => {
      const GROUP = 54_321;
      fs.chmodSync(place.dir, 0o755);
      const program = programForAll(BIN, place.dir);
      fs.mkdirSync(place.store);
      fs.chownSync(place.store, 0, GROUP);
      fs.chmodSync(place.store, 0o2770);
      const as = (uid: number, command: readonly string[], gid = GROUP): Run => {
        fs.chownSync(place.work, uid, gid);
        const shell = ['sh', '-c', 'umask 007; exec "$@"', 'sh', program, ...command];
        return place.exec(['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', ...shell]);
      };
      const options = ['--to', place.store, ...OPTIONS, '-r', 'r.dat', '--', 'sh', '-c'];
      const first = as(50_001, [...options, 'echo state > k.chk; echo 1 > r.dat; exit 75']);
      expect(await first.status, first.stderr()).toBe(75);
      place.freshWork();
      const second = as(50_002, [...options, 'grep state k.chk; echo 2 > r.dat']);
      expect(await second.status, second.stderr()).toBe(0);
      expect(second.stdout()).toBe('state\n');
      place.freshWork();
      const status = as(50_001, ['status', place.store]);
      expect(await status.status, status.stderr()).toBe(0);
      expect(status.stdout()).toMatch(/0 +done +2 /);
      const gather = as(50_001, ['gather', place.store, 'gathered']);
      expect(await gather.status, gather.stderr()).toBe(0);
      const other = as(50_003, ['status', place.store], 50_003);
      expect(await other.status).toBe(69);
      const rm = as(50_001, ['rm', place.store, '--index', '0', '--yes']);
      expect(await rm.status, rm.stderr()).toBe(0);
    },
  );
});

describe('capture flush', () => {
  it.skipIf(process.getuid?.() !== 0)('does not believe another user who listens in its place', async () => {
    fs.chmodSync(place.dir, 0o755);
    const program = programForAll(BIN, place.dir);
    const socket = path.join(place.dir, 'control');
    const answer = `${JSON.stringify({ kind: 'flushed', left: [], more: 0, open: [] })}\n`;
    const server = net.createServer((one) => one.once('data', () => one.end(answer)));
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    fs.chmodSync(socket, 0o777);
    const flush = async (owner: number): Promise<[number, string]> => {
      fs.chownSync(socket, owner, owner);
      const user = ['setpriv', '--reuid=50001', '--regid=50001', '--clear-groups'];
      const run = place.exec([...user, program, 'flush', '--control', socket]);
      return [await run.status, run.stderr()];
    };
    try {
      expect(await flush(50_001)).toEqual([0, '']);
      expect(await flush(0)).toEqual([0, '']);
      expect(await flush(50_002)).toEqual([
        69,
        expect.stringMatching(/user 50002 listens there, and you are 50001/),
      ]);
    } finally {
      server.close();
    }
  });
});

describe('a record that cannot be one is passed over for the one before it', () => {
  it.each<[string, (text: string) => string | Buffer, RegExp]>([
    ['because it is empty', () => '', /not JSON/],
    ['because it is cut short', (text) => text.slice(0, text.length / 2), /not JSON/],
    ['because it is no record', () => '{"format":1}', /kind: Invalid/],
    [
      'because it is of a later format',
      (text) => text.replace('"format":1', '"format":2'),
      /format: another version of capture wrote it/,
    ],
    ['because it is of 100 MB', () => Buffer.alloc(100e6, ' '), /larger than 16\.0 MiB/],
    ['because it is nested without end', () => '['.repeat(8e6), /nested more than 64 deep/],
    ['because it holds more than fits into memory', () => `[${'{},'.repeat(5e6)}{}]`, /more than 1000000/],
    [
      'because it holds fifty thousand generations',
      (text) => withManyGenerations(text),
      /generations: Too big/,
    ],
  ])('%s', async (_, spoil, says) => {
    await storeCheckpoint();
    const last = recordFiles().at(-1) ?? '';
    fs.writeFileSync(last, spoil(fs.readFileSync(last, 'utf8')));
    const run = next('cat k.chk');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('state\n');
    expect(run.stderr()).toMatch(says);
    expect(run.stderr()).toContain('the one before it is used');
  });
});

describe('records that would take all memory', () => {
  /** Attempts of index 0, each of which has stored something, it says. */
  function forgeAttempts(texts: readonly ((record: CaptureRecord) => string)[]): void {
    const [first = ''] = recordFiles();
    const { sum: _, ...record } = JSON.parse(fs.readFileSync(first, 'utf8')) as CaptureRecord & {
      sum: string;
    };
    texts.forEach((textOf, at) => {
      const attempt = at + 2;
      const name = `${String(attempt).padStart(4, '0')}-000002.done.json`;
      const forged = { ...record, attempt, seq: 2, kind: 'done' as const, end: { status: 0 } };
      fs.writeFileSync(path.join(path.dirname(first), name), textOf(forged));
    });
  }
  const withWords = (record: CaptureRecord): string =>
    textWithSum({ ...record, argv: Array.from({ length: 900_000 }, (_, at) => at.toString(36)) });

  it.each<[string, readonly ((record: CaptureRecord) => string)[]]>([
    ['one that is nested deep', [() => `{"format":1,"host":${'['.repeat(8e6)}${']'.repeat(7e6)}}`]],
    ['one of very many values', [() => `{"format":1,"x":[${'{},'.repeat(5e6)}{}]}`]],
    ['many that could each be read', Array(12).fill(withWords)],
  ])('end no command, and no run without a word: %s', async (_, texts) => {
    await storeCheckpoint();
    forgeAttempts(texts);
    for (const words of [
      ['status', place.store],
      ['status', place.store, '0'],
      ['verify', place.store],
      ['prune', place.store, '--dry-run'],
      ['report', place.store, '-o', place.at('report.html')],
    ]) {
      const run = place.capture([...words, '--task-name', 'sh']);
      expect(await run.status, `${words.join(' ')}: ${run.stderr().slice(0, 10_000)}`).toBeLessThan(2);
    }
    const run = next('cat k.chk');
    expect(await run.status, run.stderr().slice(0, 10_000)).toBe(0);
    expect(run.stdout()).toBe('state\n');
    expect(run.stderr()).toMatch(/cannot be used \(.*(nested more than|too many|more than 1000000)/);
    expect(run.stderr().length).toBeLessThan(20_000);
  });
});

function withManyGenerations(text: string): string {
  const record = JSON.parse(text) as CaptureRecord;
  const empty = { attempt: 1, at: record.at, members: [] };
  return JSON.stringify({
    ...record,
    generations: Array.from({ length: 50_000 }, (_, n) => ({ ...empty, generation: n + 1 })),
  });
}

describe('a task that plays with names', () => {
  const outside = (): string => {
    const dir = path.join(place.dir, 'outside');
    fs.mkdirSync(dir);
    fs.writeFileSync(path.join(dir, 'r.dat'), 'private\n');
    return dir;
  };
  const storedBytes = (): string =>
    place
      .keys()
      .map((key) => place.text(key))
      .join('');

  it('stores no link that leads out, and ends with 74', async () => {
    const run = place.run(
      ['-r', '*.dat'],
      ['sh', '-c', `ln -s ${outside()}/r.dat r.dat; ln -s ../outside/r.dat s.dat; echo own > own.dat`],
    );
    expect(await run.status, run.stderr()).toBe(74);
    expect(place.keys()).toEqual(['own.dat.0']);
    const refusals = run
      .stderr()
      .match(/[rs]\.dat is not stored: it is a symbolic link that leads out of the work/g);
    expect(refusals).toHaveLength(2);
  });

  it('stores nothing from behind a parent that became a link', async () => {
    const script = `mkdir d; echo own > d/r.dat; sleep 0.3; mv d e; ln -s ${outside()} d; : > e/done; sleep 0.3`;
    const run = place.run(['-r', 'd/r.dat', '-r', 'd/**'], ['sh', '-c', script]);
    await run.status;
    expect(storedBytes()).not.toContain('private');
  });

  it('loses no file outside to a reclaim through such a link', async () => {
    const dir = outside();
    const script = `mkdir d; echo 'private' > d/r.dat; sleep 0.3; rm -r d; ln -s ${dir} d`;
    await place.run(['-r', 'd/r.dat', '--reclaim', 'now'], ['sh', '-c', script]).status;
    expect(fs.readFileSync(path.join(dir, 'r.dat'), 'utf8')).toBe('private\n');
  });

  it('has its FIFO left alone: a writer that waits for a reader goes on waiting', async () => {
    const script =
      'mkfifo p.dat; (echo x > p.dat; touch read) & mkfifo q.dat; echo own > own.dat; sleep 1; kill $!; exit 0';
    const run = place.run(['-r', '*.dat', '--rescan', '1s'], ['sh', '-c', script]);
    await run.status;
    expect(place.keys()).toEqual(['own.dat.0']);
    expect(fs.existsSync(place.at('read'))).toBe(false);
  });
});

describe('a secret', () => {
  const SECRET = {
    accessKeyId: 'AKIASECRET',
    secretAccessKey: 'the-secret-key',
    sessionToken: 'the-secret-token',
  };

  it.each([
    ['in the environment', false],
    ['in a profile', true],
  ])('%s is in no argument, message, log or object, whatever fails', async (_, inProfile) => {
    const s3 = await openS3Place();
    try {
      s3.server.credentials = [SECRET];
      const variables = {
        AWS_ACCESS_KEY_ID: SECRET.accessKeyId,
        AWS_SECRET_ACCESS_KEY: SECRET.secretAccessKey,
        AWS_SESSION_TOKEN: SECRET.sessionToken,
      };
      const env = inProfile ? writeProfile(`${s3.place.dir}/credentials`, SECRET) : variables;
      const log = `${s3.place.dir}/log`;
      const told: string[] = [];
      for (const fault of [undefined, 'AccessDenied', 'SignatureDoesNotMatch', 'ExpiredToken', 'SlowDown']) {
        const started = (): boolean => fs.existsSync(s3.place.at('started'));
        // Not the records: each run would wait for its last one.
        s3.server.fault = ({ key }) =>
          fault !== undefined && started() && !key.includes('.capture/')
            ? { kind: 'answer', status: fault === 'SlowDown' ? 503 : 403, code: fault }
            : undefined;
        const options = [
          '-r',
          'r.dat',
          '-k',
          'k.chk',
          '--drain-timeout',
          '1s',
          '--log-level',
          'debug',
          '--log-format',
          'json',
          '--log-file',
          log,
        ];
        const run = s3.run(
          options,
          'touch started; echo x > r.dat; echo y > k.chk; until [ -e go ]; do sleep 0.02; done',
          env,
        );
        await until(started, 'the task');
        told.push(...[run.pid, ...childrenOf(run.pid)].map(commandLine));
        fs.writeFileSync(s3.place.at('go'), '');
        await run.status;
        told.push(run.stderr(), run.stdout());
        s3.place.freshWork();
      }
      s3.server.fault = () => undefined;
      told.push(fs.readFileSync(log, 'utf8'), JSON.stringify(s3.records()));
      for (const key of s3.server.keys())
        told.push(
          JSON.stringify(
            s3.server
              .versions(key)
              .map(({ bytes, ...rest }) => [rest, Buffer.from(bytes ?? []).toString('latin1')]),
          ),
        );
      for (const secret of [SECRET.secretAccessKey, SECRET.sessionToken]) {
        expect(told.filter((text) => text.includes(secret))).toEqual([]);
      }
      expect(told.join('')).toContain('access denied');
    } finally {
      await s3.close();
    }
  });
});

function commandLine(pid: number): string {
  return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1');
}
