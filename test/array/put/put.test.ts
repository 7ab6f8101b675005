// Runs of `capture put`: what it stores, what it leaves alone, and that a task gets it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { md5Of } from '../../../src/model/md5.ts';
import { BIN } from '../../e2e/support.ts';
import { NOBODY } from '../../support/other-user.ts';
import { killedAtChange, type Ran } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-put-'));
});
afterEach(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

const write = (name: string, content: string | Uint8Array): void => {
  fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true });
  fs.writeFileSync(path.join(dir, name), content);
};

function start(...args: readonly string[]): ReturnType<typeof spawn> {
  return startAs([BIN], ...args);
}

function startAs(
  [command = BIN, ...rest]: readonly string[],
  ...args: readonly string[]
): ReturnType<typeof spawn> {
  const env = { PATH: process.env['PATH'], ...stored.env };
  return spawn(command, [...rest, ...args], { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] });
}

const capture = (...args: readonly string[]): Promise<Ran> => ended(start(...args));

async function ended(child: ReturnType<typeof spawn>): Promise<Ran> {
  const [stdout, stderr] = await Promise.all([
    child.stdout === null ? '' : text(child.stdout),
    child.stderr === null ? '' : text(child.stderr),
    once(child, 'close'),
  ]);
  return { stdout, stderr, status: child.exitCode };
}

const put = (...args: readonly string[]): Promise<Ran> => capture('put', ...args, stored.url);

async function keys(): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { key } of stored.store.list('')) found.push(key);
  return found;
}

async function contentOf(key: string): Promise<string | undefined> {
  const got = await stored.store.get(key);
  if (got === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  for await (const chunk of got.body) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe.each(STORE_KINDS)('capture put into %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
  });

  it('stores files under their own names, and directories with all that is in them', async () => {
    write('elsewhere/in.melt', 'units lj');
    write('potentials/a b.eam', 'one');
    write('potentials/deep/c.eam', '');
    fs.symlinkSync('a b.eam', path.join(dir, 'potentials/link'));
    fs.symlinkSync('.', path.join(dir, 'potentials/circle'));
    const ran = await put('elsewhere/in.melt', 'potentials/');
    expect(ran).toMatchObject({ status: 1, stdout: '' });
    expect(ran.stderr).toContain('potentials/circle is left out: it is no file');
    expect(ran.stderr).toContain(`put 4 files (14 B), 1 not stored under ${stored.url}`);
    expect(await keys()).toEqual([
      'in.melt',
      'potentials/a b.eam',
      'potentials/deep/c.eam',
      'potentials/link',
    ]);
    expect(await contentOf('in.melt')).toBe('units lj');
    expect(await contentOf('potentials/link')).toBe('one');
    expect((await stored.store.head('in.melt'))?.meta).toMatchObject({ md5: md5Of('units lj'), size: '8' });
  });

  it.each(['nowhere', 'itself'])('leaves out a link to %s, and stores the others', async (target) => {
    write('in/a', 'A');
    fs.symlinkSync(target, path.join(dir, 'in/itself'));
    const ran = await put('in');
    expect(ran).toMatchObject({ status: 1 });
    expect(ran.stderr).toContain('in/itself is left out: E');
    expect(await keys()).toEqual(['in/a']);
  });

  it.runIf(process.getuid?.() === 0)(
    "follows another user's link to a file only if that user owns the file, too",
    async () => {
      write('secrets/key', 'only ours');
      write('theirs', 'theirs');
      fs.chownSync(path.join(dir, 'theirs'), NOBODY, NOBODY);
      fs.mkdirSync(path.join(dir, 'shared'));
      for (const [name, target] of [
        ['shared/planted', '../secrets/key'],
        ['shared/right', '../theirs'],
        ['alone', 'secrets/key'],
        ['all', 'secrets'],
      ] as const) {
        fs.symlinkSync(target, path.join(dir, name));
        fs.lchownSync(path.join(dir, name), NOBODY, NOBODY);
      }
      const ran = await put('shared', 'alone');
      expect(ran).toMatchObject({ status: 1 });
      for (const name of ['shared/planted', 'alone'])
        expect(ran.stderr).toContain(`${name}: user ${NOBODY} has made a link there, to a file of user 0`);
      expect(await keys()).toEqual(['shared/right']);
      for (const name of ['all', 'all/']) {
        const refused = await put(name);
        expect(refused).toMatchObject({ status: 64 });
        expect(refused.stderr).toContain(`user ${NOBODY} has made a link there`);
      }
    },
  );

  it('takes link/.. as the kernel does', async () => {
    write('far/inputs/a', 'right');
    write('far/data/x', '');
    write('inputs/a', 'wrong');
    fs.symlinkSync('far/data', path.join(dir, 'data'));
    expect(await put('data/../inputs')).toMatchObject({ status: 0 });
    expect(await contentOf('inputs/a')).toBe('right');
  });

  it('brings a task exactly what was put, with its time and mode', async () => {
    write('in.dat', 'the input');
    fs.chmodSync(path.join(dir, 'in.dat'), 0o640);
    fs.utimesSync(path.join(dir, 'in.dat'), 1_700_000_000, 1_700_000_000);
    await put('in.dat');
    fs.mkdirSync(path.join(dir, 'work'));
    const options = ['--to', stored.url, '--index', '3', '--workdir', path.join(dir, 'work')];
    const ran = await capture(...options, '-i', 'in.dat', '-r', 'out', '--', 'cp', 'in.dat', 'out');
    expect(ran.status).toBe(0);
    const { mode, mtimeMs } = fs.statSync(path.join(dir, 'work/in.dat'));
    expect({ mode: mode & 0o777, mtimeMs }).toEqual({ mode: 0o640, mtimeMs: 1_700_000_000_000 });
  });

  it('sends nothing again that is there, also if another program has put it there', async () => {
    write('a', 'A');
    write('b', 'B');
    stored.put('b', 'B');
    expect((await put('a', 'b')).stderr).toContain('put 1 file (1 B), 1 file there already');
    const again = await put('a', 'b');
    expect(again).toMatchObject({ status: 0 });
    expect(again.stderr).toContain('put 0 files (0 B), 2 files there already');
  });

  it('replaces another object only with --replace', async () => {
    write('in.melt', 'new');
    stored.put('in.melt', 'old');
    const refused = await put('in.melt');
    expect(refused).toMatchObject({ status: 1 });
    expect(refused.stderr).toMatch(
      /in\.melt: another object has its name, with other bytes\n +try: --replace/,
    );
    expect(await contentOf('in.melt')).toBe('old');
    expect(await put('--replace', 'in.melt')).toMatchObject({ status: 0 });
    expect(await contentOf('in.melt')).toBe('new');
  });

  it('sends nothing in a dry run', async () => {
    write('a', 'A');
    const ran = await put('--dry-run', 'a');
    expect(ran).toMatchObject({ status: 0 });
    expect(ran.stderr).toContain('would put 1 file (1 B)');
    expect(await keys()).toEqual([]);
  });

  it('stores the others if one cannot be read', async () => {
    write('a', 'A');
    fs.symlinkSync('/proc/self/mem', path.join(dir, 'b'));
    const ran = await put('b', 'a');
    expect(ran).toMatchObject({ status: 1 });
    expect(ran.stderr).toMatch(/b: .*\n/);
    expect(ran.stderr).toContain('put 1 file (1 B), 1 not stored');
    expect(await keys()).toEqual(['a']);
  });

  it.each([
    [['nothing'], 66, 'nothing: ENOENT'],
    [['/dev/null'], 64, '/dev/null is neither a file nor a directory'],
    [['x/a', 'y/a'], 64, 'x/a and y/a have one name in the store'],
    [['.capture'], 64, '.capture/ is where capture keeps its records'],
  ])('refuses %j, and stores nothing', async (names, status, message) => {
    for (const name of ['x/a', 'y/a', '.capture/r', 'good']) write(name, name);
    const ran = await put('good', ...names);
    expect(ran).toMatchObject({ status });
    expect(ran.stderr).toContain(message);
    expect(await keys()).toEqual([]);
  });
});

it('stores nothing of a file that a process has open for writing', async () => {
  stored = await openStoreOfRecords('a directory');
  const fd = fs.openSync(path.join(dir, 'half'), 'w');
  fs.writeSync(fd, 'the first half');
  const ran = await put('half');
  expect(ran).toMatchObject({ status: 1 });
  expect(ran.stderr).toContain('half: a process has it open for writing');
  expect(await keys()).toEqual([]);
  fs.closeSync(fd);
  expect(await put('half')).toMatchObject({ status: 0 });
});

// Another user's file, without CAP_LEASE (capabilities(7)): no lease says that it has a writer, as on a network file system.
it.runIf(process.getuid?.() === 0)(
  "stores another user's file only once it does not change any more",
  async () => {
    stored = await openStoreOfRecords('a directory');
    write('half', '');
    fs.chownSync(path.join(dir, 'half'), 65_534, 65_534);
    const putHalf = (): Promise<Ran> =>
      ended(startAs(['setpriv', '--bounding-set=-lease', BIN], 'put', 'half', stored.url));
    const fd = fs.openSync(path.join(dir, 'half'), 'a');
    const writer = setInterval(() => fs.writeSync(fd, 'more'), 300);
    try {
      const ran = await putHalf();
      expect(ran).toMatchObject({ status: 1 });
      expect(ran.stderr).toContain(
        'half: it changed less than 1 s ago, and the kernel does not show who has it open',
      );
      expect(await keys()).toEqual([]);
    } finally {
      clearInterval(writer);
      fs.closeSync(fd);
    }
    expect(await putHalf()).toMatchObject({ status: 0 });
    expect(await contentOf('half')).toBe(fs.readFileSync(path.join(dir, 'half'), 'utf8'));
  },
);

describe('capture put into an S3 server', () => {
  beforeEach(async () => {
    stored = await openStoreOfRecords('an S3 server');
  });

  it('sends a large file in parts, and proves it', async () => {
    const content = Buffer.alloc(20 * 2 ** 20, 'a long input ');
    write('large', content);
    expect(await put('large')).toMatchObject({ status: 0 });
    expect(stored.server?.served.filter(({ operation }) => operation === 'UploadPart')).toHaveLength(3);
    expect(await contentOf('large')).toBe(content.toString());
  });

  it('makes no object of a file that changes while it is sent', async () => {
    write('large', Buffer.alloc(20 * 2 ** 20, 1));
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    server.fault = ({ operation, nth }) => {
      if (operation === 'UploadPart' && nth === 1) write('large', Buffer.alloc(20 * 2 ** 20, 2));
      return undefined;
    };
    const ran = await put('large');
    expect(ran).toMatchObject({ status: 1 });
    expect(ran.stderr).toContain('large: it changed while it was read');
    expect(await keys()).toEqual([]);
  });

  it('goes on after kill -9, wherever it was', async () => {
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    const names = ['a', 'b', 'c'];
    for (const name of names) write(name, name);
    for (let at = 1; ; at += 1) {
      const isKilled = await killedAtChange(at, server, () => start('put', ...names, stored.url));
      expect(await put(...names)).toMatchObject({ status: 0 });
      expect(await keys()).toEqual(names);
      for (const name of names) expect(await contentOf(name)).toBe(name);
      await stored.store.delete(names);
      if (!isKilled) break;
    }
  });
});

it.each([
  [[], 'no file is named'],
  [['in.melt'], 'the last word is the store, and there is none'],
])('refuses the words %j', async (words, message) => {
  stored = await openStoreOfRecords('a directory');
  const ran = await capture('put', ...words);
  expect(ran).toMatchObject({ status: 64 });
  expect(ran.stderr).toContain(message);
});
