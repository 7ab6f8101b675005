// Runs of `capture gather` over what attempts have stored.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { partialKey, resultKey } from '../../../src/model/format/keys.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { loadZstd } from '../../../src/native/zstd.ts';
import { run, start } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';

let stored: StoreOfRecords;
let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-gather-'));
});
afterEach(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

const zstd = await loadZstd();
const MTIME_NS = '1795187436573462462';

/** Puts a result as a push leaves it, and says what its record tells. */
function result(index: string, name: string, content: Buffer, more: Partial<StoredFile> = {}): StoredFile {
  const compressed = name.endsWith('.txt') && zstd !== undefined;
  const key = resultKey(name, { taskName: 't', index }, compressed);
  stored.put(key, compressed ? frameOf(content) : content);
  return {
    path: name,
    kind: 'file',
    key,
    push: 'p',
    attempt: 1,
    md5: createHash('md5').update(content).digest('hex'),
    size: content.length,
    compressed,
    mtimeNs: MTIME_NS,
    mode: 0o640,
    ...more,
  };
}

function frameOf(content: Buffer): Buffer {
  if (zstd === undefined) throw new Error('no zstd');
  const frame = Buffer.alloc(zstd.compressBound(content.length));
  return frame.subarray(0, zstd.compress(frame, content, 1));
}

const textOf = (index: string, name: string): Buffer => Buffer.from(`${name} of ${index}\n`.repeat(100));

/** Indices 0 to n-1, done, with three results each. */
function fill(n: number): void {
  for (const index of Array.from({ length: n }, (_, at) => String(at))) {
    const results = ['r.dat', 'out/log.txt', 'out/a b'].map((name) =>
      result(index, name, textOf(index, name)),
    );
    stored.record({ index, attempt: 1, seq: 2, kind: 'done', results });
  }
}

function filesBelow(at = dir): readonly string[] {
  return fs
    .readdirSync(at, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(at, path.join(entry.parentPath, entry.name)))
    .toSorted();
}

describe.each(STORE_KINDS)('capture gather from %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
  });

  it('brings all results of all indices, decompressed, with their times and modes, and leaves nothing else', async () => {
    fill(3);
    const ran = await run('gather', stored, dir);
    expect(ran).toMatchObject({ status: 0, stdout: '' });
    expect(ran.stderr).toContain(`gathered 9 files (12.0 KiB) into ${dir}`);
    const names = ['out/a b', 'out/log.txt', 'r.dat'];
    expect(filesBelow()).toEqual(['0', '1', '2'].flatMap((index) => names.map((name) => `${index}/${name}`)));
    for (const name of names) expect(fs.readFileSync(path.join(dir, '1', name))).toEqual(textOf('1', name));
    const { mode, mtimeNs } = fs.statSync(path.join(dir, '1/r.dat'), { bigint: true });
    expect({ mode: mode & 0o777n, mtimeNs }).toEqual({ mode: 0o640n, mtimeNs: BigInt(MTIME_NS) });
    expect(fs.readdirSync(dir)).toEqual(['0', '1', '2']);
  });

  it('names the files as --layout says, and takes only what --include, --exclude and --array name', async () => {
    fill(4);
    const only = [
      '--include',
      'out/',
      '--exclude',
      '*/a*',
      '--array',
      '1-3:2',
      '--layout',
      'x/{name}.{task}.{index}',
    ];
    expect(await run('gather', stored, dir, ...only)).toMatchObject({ status: 0 });
    expect(filesBelow()).toEqual(['x/log.txt.t.1', 'x/log.txt.t.3']);
  });

  it('refuses a set that is not complete, says what is missing, and gathers it with --incomplete', async () => {
    fill(2);
    stored.record({
      index: '2',
      attempt: 1,
      seq: 3,
      kind: 'failed',
      status: 3,
      results: [result('2', 'r.dat', Buffer.from('some'))],
    });
    const refused = await run('gather', stored, dir, '--array', '0-4');
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain('3 indices (1 failed: 2; 2 missing: 3-4) of 5 are not done');
    expect(filesBelow()).toEqual([]);
    expect(await run('gather', stored, dir, '--array', '0-4', '--incomplete')).toMatchObject({ status: 1 });
    expect(filesBelow()).toHaveLength(7);
    // The two that are asked for are done.
    expect(await run('gather', stored, dir, '--array', '0-1')).toMatchObject({ status: 0 });
  });

  it('leaves a different file as it is, and says so', async () => {
    fill(1);
    fs.mkdirSync(path.join(dir, '0/out'), { recursive: true });
    fs.writeFileSync(path.join(dir, '0/r.dat'), 'mine');
    const same = path.join(dir, '0/out/a b');
    fs.writeFileSync(same, textOf('0', 'out/a b'));
    const ran = await run('gather', stored, dir);
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('0/r.dat of index 0: a different file of that name is there, and stays');
    expect(ran.stderr).toContain('gathered 1 file (1.7 KiB) into');
    expect(ran.stderr).toContain('1 file there already; 1 missing');
    expect(fs.readFileSync(path.join(dir, '0/r.dat'), 'utf8')).toBe('mine');
  });

  it('believes a file of the same size and mtime, and with --checksum reads it', async () => {
    fill(1);
    await run('gather', stored, dir);
    const file = path.join(dir, '0/r.dat');
    const { atime, mtime } = fs.statSync(file);
    const damaged = fs.readFileSync(file);
    damaged[0] = 0;
    fs.writeFileSync(file, damaged);
    fs.utimesSync(file, atime, mtime);
    execFileSync('touch', ['-d', `@${MTIME_NS.slice(0, 10)}.${MTIME_NS.slice(10)}`, file]);
    expect(await run('gather', stored, dir)).toMatchObject({ status: 0 });
    expect(await run('gather', stored, dir, '--checksum')).toMatchObject({ status: 1 });
  });

  it('gives no name to two results', async () => {
    fill(2);
    const refused = await run('gather', stored, dir, '--layout', '{path}');
    expect(refused.status).toBe(64);
    expect(refused.stderr).toContain('--layout has no {index}, and there are 2 indices');
    expect(await run('gather', stored, dir, '--layout', '{path}', '--array', '1')).toMatchObject({
      status: 0,
    });
    const both = ['a/x.dat', 'b/x.dat'].map((name) => result('2', name, textOf('2', name)));
    stored.record({ index: '2', attempt: 1, seq: 2, kind: 'done', results: both });
    const ran = await run('gather', stored, dir, '--layout', '{index}/{name}', '--array', '2');
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('2/x.dat of index 2: another result of this index has that name');
    expect(fs.readFileSync(path.join(dir, '2/x.dat'))).toEqual(textOf('2', 'a/x.dat'));
  });

  it('places nothing that is damaged or gone', async () => {
    const damaged = result('0', 'bad.dat', Buffer.from('12345'), { md5: '0'.repeat(32) });
    const gone = { ...result('0', 'gone.dat', Buffer.from('x')), key: 'nowhere.0' };
    const whole = result('0', 'whole.dat', Buffer.from('whole'));
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done', results: [damaged, gone, whole] });
    const ran = await run('gather', stored, dir);
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('0/bad.dat of index 0: its md5 is');
    expect(ran.stderr).toContain('0/gone.dat of index 0: its object nowhere.0 is not in the store');
    expect(filesBelow()).toEqual(['0/whole.dat']);
  });

  it('writes nothing outside the directory, whatever records and links say', async () => {
    const outside = path.join(dir, 'outside');
    const into = path.join(dir, 'into');
    fs.mkdirSync(outside);
    fs.mkdirSync(path.join(into, '0'), { recursive: true });
    fs.symlinkSync(outside, path.join(into, '0/link'));
    const up = { ...result('0', 'up', Buffer.from('x')), path: '../../outside/up' };
    const through = { ...result('0', 'through', Buffer.from('x')), path: 'link/through' };
    const target = result('0', 'leaves', Buffer.from('../../outside/new'), { kind: 'link' });
    const own = { ...result('0', 'own', Buffer.from('x')), path: '.capture/own' };
    const layout = ['--layout', '{path}', '--array', '1'];
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done', results: [up, through, target] });
    stored.record({ index: '1', attempt: 1, seq: 2, kind: 'done', results: [own] });
    const ran = await run('gather', stored, into);
    expect(ran.status, ran.stderr).toBe(1);
    expect(ran.stderr).toMatch(/outside\/up of index 0: its name leads out/);
    expect(ran.stderr).toContain('0/link/through of index 0: 0/link is a link');
    expect(ran.stderr).toMatch(/0\/leaves of index 0: it is a link that leaves/);
    expect(fs.readdirSync(outside)).toEqual([]);
    const inOurs = await run('gather', stored, into, ...layout);
    expect(inOurs.stderr).toContain('.capture/own of index 1: its name lies in .capture');
    expect(fs.readdirSync(outside)).toEqual([]);
    expect(filesBelow(into)).toEqual(['0/link', '1/.capture/own']);
  });

  it('says what deaths and later attempts left, and brings what was cut off with --with-partials', async () => {
    const scope = { taskName: 't', index: '3' };
    const key = partialKey('r.dat', scope, { attempt: 2, n: 0 }, false);
    const cut = result('3', 'r.dat', Buffer.from('cut off'));
    stored.put(key, 'cut off');
    const partials = [{ ...cut, key, attempt: 2, push: 'q' }];
    const whole = result('3', 'r.dat', Buffer.from('whole'));
    stored.record({
      index: '3',
      attempt: 3,
      seq: 2,
      kind: 'done',
      results: [whole],
      partials,
      kept: { 'r.dat': 2 },
    });
    const ran = await run('gather', stored, dir);
    expect(ran.status).toBe(0);
    expect(ran.stderr).toContain('index 3 leaves 1 partial (--with-partials), 2 older copies');
    expect(filesBelow()).toEqual(['3/r.dat']);
    await run('gather', stored, dir, '--with-partials');
    expect(filesBelow()).toEqual(['3/r.dat', '3/r.dat.partial-2']);
    expect(fs.readFileSync(path.join(dir, '3/r.dat.partial-2'), 'utf8')).toBe('cut off');
  });

  it('lists names, sizes and md5 as md5sum and as JSON, and downloads nothing', async () => {
    fill(2);
    const { stdout, status } = await run('gather', stored, '--list', 'md5sum');
    expect(status).toBe(0);
    const read = JSON.parse((await run('gather', stored, '--list', 'json')).stdout) as readonly object[];
    expect(read[0]).toEqual({
      index: '0',
      name: '0/r.dat',
      size: 1100,
      md5: createHash('md5').update(textOf('0', 'r.dat')).digest('hex'),
      kind: 'file',
      key: 'r.dat.0',
    });
    expect(read).toHaveLength(6);
    await run('gather', stored, dir);
    expect(execFileSync('md5sum', ['-c', '--quiet'], { cwd: dir, input: stdout, encoding: 'utf8' })).toBe('');
  });

  it('makes nothing in a dry run, and says what it would do', async () => {
    fill(2);
    const into = path.join(dir, 'new');
    const ran = await run('gather', stored, into, '--dry-run');
    expect(ran).toMatchObject({ status: 0 });
    expect(ran.stderr).toContain(`would gather 6 files (8.0 KiB) into ${into}`);
    expect(fs.readdirSync(dir)).toEqual([]);
  });
});

describe('a gathering that is killed again and again', () => {
  const INDICES = 60;

  it(
    'downloads nothing twice that was whole, and is bitwise complete in the end',
    { timeout: 120_000 },
    async () => {
      stored = await openStoreOfRecords('an S3 server');
      fill(INDICES);
      const downloads = (): readonly string[] =>
        (stored.server?.served ?? [])
          .filter(({ operation, key }) => operation === 'GetObject' && !key.includes('.capture/'))
          .map(({ key }) => key.replace('run7/', ''));
      const keyOf = (name: string): string => {
        const [, index = '', rest = ''] = /^(\d+)\/(.*)$/.exec(name) ?? [];
        return resultKey(rest, { taskName: 't', index }, rest.endsWith('.txt') && zstd !== undefined);
      };
      let died = 0;
      for (let life = 0; life < 20; life += 1) {
        const whole = new Set(
          filesBelow()
            .filter((name) => !name.startsWith('.capture/'))
            .map(keyOf),
        );
        const before = downloads().length;
        const child = start('gather', stored, [dir, '--parallel', '4']);
        child.stdout?.resume();
        child.stderr?.resume();
        // In the middle of its work: after so many answers.
        const enough = (): boolean =>
          downloads().length >= before + 4 + (life % 5) || child.exitCode !== null;
        while (!enough()) await new Promise(setImmediate);
        child.kill('SIGKILL');
        await once(child, 'close');
        if (child.signalCode === 'SIGKILL') died += 1;
        const again = downloads()
          .slice(before)
          .filter((key) => whole.has(key));
        expect(again, `life ${life}`).toEqual([]);
      }
      expect(died).toBeGreaterThan(15);
      const whole = new Set(
        filesBelow()
          .filter((name) => !name.startsWith('.capture/'))
          .map(keyOf),
      );
      const before = downloads().length;
      expect(await run('gather', stored, dir)).toMatchObject({ status: 0 });
      expect(
        downloads()
          .slice(before)
          .filter((key) => whole.has(key)),
      ).toEqual([]);
      expect(filesBelow()).toHaveLength(INDICES * 3);
      for (const name of filesBelow()) {
        const [, index = '', rest = ''] = /^(\d+)\/(.*)$/.exec(name) ?? [];
        expect(fs.readFileSync(path.join(dir, name)), name).toEqual(textOf(index, rest));
      }
    },
  );

  it('is alone in its directory', async () => {
    stored = await openStoreOfRecords('an S3 server');
    fill(1);
    const { server } = stored;
    if (server === undefined) throw new Error('no server');
    server.fault = ({ operation, key }) =>
      operation === 'GetObject' && key.endsWith('r.dat.0') ? { kind: 'stall' } : undefined;
    const first = start('gather', stored, [dir]);
    const stalled = (): boolean => server.served.some(({ key }) => key.endsWith('r.dat.0'));
    while (!stalled()) await new Promise(setImmediate);
    const second = await run('gather', stored, dir);
    first.kill('SIGKILL');
    await once(first, 'close');
    expect(second.status).toBe(64);
    expect(second.stderr).toContain(`another capture gather is at work in ${dir}`);
  });
});
