// Runs of `capture gather` over what attempts have stored.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { partialKey } from '../../../src/model/format/keys.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { tryLock } from '../../../src/native/files.ts';
import { run } from '../ran.ts';
import { openStoreOfRecords, STORE_KINDS, type StoreOfRecords } from '../store-of-records.ts';
import { filesBelow, fill, MTIME_NS, result, textOf } from './results.ts';

let stored: StoreOfRecords;
let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-gather-'));
});
afterEach(async () => {
  await stored.close();
  fs.rmSync(dir, { recursive: true, force: true });
});

describe.each(STORE_KINDS)('capture gather from %s', (kind) => {
  beforeEach(async () => {
    stored = await openStoreOfRecords(kind);
  });

  it('brings all results of all indices, decompressed, with their times and modes, and leaves nothing else', async () => {
    fill(stored, 3);
    const ran = await run('gather', stored, dir);
    expect(ran).toMatchObject({ status: 0, stdout: '' });
    expect(ran.stderr).toContain(`gathered 9 files (12.0 KiB) into ${dir}`);
    const names = ['out/a b', 'out/log.txt', 'r.dat'];
    expect(filesBelow(dir)).toEqual(
      ['0', '1', '2'].flatMap((index) => names.map((name) => `${index}/${name}`)),
    );
    for (const name of names) expect(fs.readFileSync(path.join(dir, '1', name))).toEqual(textOf('1', name));
    const { mode, mtimeNs } = fs.statSync(path.join(dir, '1/r.dat'), { bigint: true });
    expect({ mode: mode & 0o777n, mtimeNs }).toEqual({ mode: 0o640n, mtimeNs: BigInt(MTIME_NS) });
    expect(fs.readdirSync(dir)).toEqual(['0', '1', '2']);
  });

  it('is not held up by somebody who may only read the directory, and locks it', async () => {
    fill(stored, 1);
    const reader = fs.openSync(dir, 'r');
    expect(tryLock(reader)).toBe(true);
    expect(await run('gather', stored, dir)).toMatchObject({ status: 0 });
    fs.closeSync(reader);
    expect(fs.readdirSync(dir)).toEqual(['0']);
  });

  it('says nothing but what it has gathered when it downloads many files at once', async () => {
    fill(stored, 8);
    const { stderr } = await run('gather', stored, dir);
    expect(stderr).toMatch(/^\S+ capture: gathered 24 files .*\n$/);
  });

  it('names the files as --layout says, and takes only what --include, --exclude and --array name', async () => {
    fill(stored, 4);
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
    expect(filesBelow(dir)).toEqual(['x/log.txt.t.1', 'x/log.txt.t.3']);
  });

  it('says of each --include that no result matches it, and exits 1', async () => {
    fill(stored, 2);
    const ran = await run(
      'gather',
      stored,
      dir,
      '--include',
      'r.dta',
      '--include',
      'out/',
      '--include',
      'out/log.txt',
    );
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain("no result matches --include 'r.dta'");
    expect(ran.stderr.match(/no result matches/g)).toHaveLength(1);
    expect(filesBelow(dir)).toHaveLength(4);
    const excluded = await run(
      'gather',
      stored,
      '--list',
      'md5sum',
      '--include',
      'r.dat',
      '--exclude',
      '*.dat',
    );
    expect(excluded).toMatchObject({ status: 1, stdout: '' });
    expect(excluded.stderr).toContain("no result matches --include 'r.dat'");
  });

  it('refuses a set that is not complete, says what is missing, and gathers it with --incomplete', async () => {
    fill(stored, 2);
    stored.record({
      index: '2',
      attempt: 1,
      seq: 3,
      kind: 'failed',
      status: 3,
      results: [result(stored, '2', 'r.dat', Buffer.from('some'))],
    });
    const refused = await run('gather', stored, dir, '--array', '0-4');
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain('3 indices (1 failed: 2; 2 missing: 3-4) of 5 are not done');
    expect(refused.stderr).toContain('try: run them again (capture status), or --incomplete');
    expect(filesBelow(dir)).toEqual([]);
    stored.record({ index: '3', attempt: 1, seq: 0, kind: 'started' });
    const running = await run('gather', stored, dir, '--array', '0-4');
    expect(running.stderr).toContain(
      'try: wait for what runs (capture wait), run the others again (capture status), or --incomplete',
    );
    expect(await run('gather', stored, dir, '--array', '0-4', '--incomplete')).toMatchObject({ status: 1 });
    expect(filesBelow(dir)).toHaveLength(7);
    // The two that are asked for are done.
    expect(await run('gather', stored, dir, '--array', '0-1')).toMatchObject({ status: 0 });
  });

  it('leaves a different file as it is, and says so', async () => {
    fill(stored, 1);
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
    fill(stored, 1);
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
    fill(stored, 2);
    const refused = await run('gather', stored, dir, '--layout', '{path}');
    expect(refused.status).toBe(64);
    expect(refused.stderr).toContain('--layout has no {index}, and there are 2 indices');
    expect(await run('gather', stored, dir, '--layout', '{path}', '--array', '1')).toMatchObject({
      status: 0,
    });
    const both = ['a/x.dat', 'b/x.dat'].map((name) => result(stored, '2', name, textOf('2', name)));
    stored.record({ index: '2', attempt: 1, seq: 2, kind: 'done', results: both });
    const ran = await run('gather', stored, dir, '--layout', '{index}/{name}', '--array', '2');
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('2/x.dat of index 2: another result of this index has that name');
    expect(fs.readFileSync(path.join(dir, '2/x.dat'))).toEqual(textOf('2', 'a/x.dat'));
  });

  it('places nothing that is damaged or gone', async () => {
    const damaged = result(stored, '0', 'bad.dat', Buffer.from('12345'), { md5: '0'.repeat(32) });
    const gone = result(stored, '0', 'gone.dat', Buffer.from('x'));
    await stored.store.delete([gone.key]);
    const whole = result(stored, '0', 'whole.dat', Buffer.from('whole'));
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done', results: [damaged, gone, whole] });
    const ran = await run('gather', stored, dir);
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('0/bad.dat of index 0: its md5 is');
    expect(ran.stderr).toContain('0/gone.dat of index 0: its object gone.dat.0 is not in the store');
    expect(filesBelow(dir)).toEqual(['0/whole.dat']);
  });

  it('writes nothing outside the directory, whatever records and links say', async () => {
    const outside = path.join(dir, 'outside');
    const into = path.join(dir, 'into');
    fs.mkdirSync(outside);
    fs.mkdirSync(path.join(into, '0'), { recursive: true });
    fs.symlinkSync(outside, path.join(into, '0/link'));
    const up = { ...result(stored, '2', 'up', Buffer.from('x')), path: '../../outside/up' };
    const through = result(stored, '0', 'link/through', Buffer.from('x'));
    const target = result(stored, '0', 'leaves', Buffer.from('../../outside/new'), { kind: 'link' });
    const own = result(stored, '1', '.capture/own', Buffer.from('x'));
    const layout = ['--layout', '{path}', '--array', '1'];
    stored.record({ index: '0', attempt: 1, seq: 2, kind: 'done', results: [through, target] });
    stored.record({ index: '2', attempt: 1, seq: 2, kind: 'done', results: [up] });
    stored.record({ index: '1', attempt: 1, seq: 2, kind: 'done', results: [own] });
    const ran = await run('gather', stored, into);
    expect(ran.status, ran.stderr).toBe(1);
    expect(ran.stderr).toMatch(/cannot be used \(it names up\.2, which no attempt of task t, index 2 can/);
    expect(ran.stderr).toContain('0/link/through of index 0: 0/link is a link');
    expect(ran.stderr).toMatch(/0\/leaves of index 0: it is a link that leaves/);
    expect(fs.readdirSync(outside)).toEqual([]);
    const inOurs = await run('gather', stored, into, ...layout);
    expect(inOurs.stderr).toContain('.capture/own of index 1: its name lies in .capture');
    expect(fs.readdirSync(outside)).toEqual([]);
    expect(filesBelow(into)).toEqual(['0/link', '1/.capture/own']);
  });

  it('deletes nothing of somebody else where .capture in the directory is a link', async () => {
    fill(stored, 1);
    const [theirs, into] = [path.join(dir, 'theirs'), path.join(dir, 'into')];
    fs.mkdirSync(path.join(theirs, 'gather'), { recursive: true });
    fs.writeFileSync(path.join(theirs, 'gather/thesis'), 'precious');
    fs.mkdirSync(into);
    fs.symlinkSync('../theirs', path.join(into, '.capture'));
    const ran = await run('gather', stored, into);
    expect(ran.status, ran.stderr).toBe(64);
    expect(ran.stderr).toMatch(/cannot gather into .*: .*not a directory[^]*move away what has that name/);
    expect(fs.readdirSync(theirs)).toEqual(['gather']);
    expect(fs.readFileSync(path.join(theirs, 'gather/thesis'), 'utf8')).toBe('precious');
  });

  it('says what deaths and later attempts left, and brings what was cut off with --with-partials', async () => {
    const scope = { taskName: 't', index: '3' };
    const key = partialKey('r.dat', scope, { attempt: 2, n: 0 }, false);
    const cut = result(stored, '3', 'r.dat', Buffer.from('cut off'));
    stored.put(key, 'cut off');
    const partials = [{ ...cut, key, attempt: 2, push: 'q' }];
    const whole = result(stored, '3', 'r.dat', Buffer.from('whole'));
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
    expect(ran.stderr).toContain(
      'index 3 leaves in the store: 1 staged (--with-partials), 2 older copies of replaced results',
    );
    expect(filesBelow(dir)).toEqual(['3/r.dat']);
    await run('gather', stored, dir, '--with-partials');
    expect(filesBelow(dir)).toEqual(['3/r.dat', '3/r.dat.partial-2']);
    expect(fs.readFileSync(path.join(dir, '3/r.dat.partial-2'), 'utf8')).toBe('cut off');
  });

  it('names with --incomplete what an earlier attempt left half-written and nobody wrote again', async () => {
    const scope = { taskName: 't', index: '3' };
    const cut = (name: string): StoredFile => {
      const key = partialKey(name, scope, { attempt: 1, n: 0 }, false);
      stored.put(key, 'cut off');
      return { ...result(stored, '3', name, Buffer.from('cut off')), key };
    };
    const first = { index: '3', attempt: 1, seq: 2, kind: 'failed', status: 5 } as const;
    stored.record({ ...first, partials: [cut('r.dat'), cut('log')] });
    const left = [{ path: 'r.dat', why: 'only what attempt 1 left is stored' }];
    const whole = result(stored, '3', 'whole.dat', Buffer.from('whole'));
    stored.record({ index: '3', attempt: 2, seq: 2, kind: 'failed', status: 74, results: [whole], left });
    expect(await run('gather', stored, dir)).toMatchObject({ status: 1 });
    expect(filesBelow(dir)).toEqual([]);
    const ran = await run('gather', stored, dir, '--incomplete');
    expect(ran.status).toBe(1);
    expect(ran.stderr).toContain('index 3: r.dat is not stored whole: only what attempt 1 left is stored');
    expect(ran.stderr).toContain('index 3 leaves in the store: 2 staged (--with-partials)');
    await run('gather', stored, dir, '--incomplete', '--with-partials');
    expect(filesBelow(dir)).toEqual(['3/log.partial-1', '3/r.dat.partial-1', '3/whole.dat']);
  });

  it('lists names, sizes and md5 as md5sum and as JSON, and downloads nothing', async () => {
    fill(stored, 2);
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

  it('makes the directory with those above it, and says where it cannot be', async () => {
    fill(stored, 1);
    expect(await run('gather', stored, path.join(dir, 'new/below'))).toMatchObject({ status: 0 });
    expect(filesBelow(dir)).toHaveLength(3);
    const refused = await run('gather', stored, '/proc/results');
    expect(refused.status).toBe(64);
    expect(refused.stderr).toContain('cannot gather into /proc/results: ENOENT');
  });

  it('makes nothing in a dry run, and says what it would do', async () => {
    fill(stored, 2);
    const into = path.join(dir, 'new');
    const ran = await run('gather', stored, into, '--dry-run');
    expect(ran).toMatchObject({ status: 0 });
    expect(ran.stderr).toContain(`would gather 6 files (8.0 KiB) into ${into}`);
    expect(fs.readdirSync(dir)).toEqual([]);
  });
});
