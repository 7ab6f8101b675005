import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openReclaimer } from '../../src/reclaim/reclaim.ts';
import { recoverReclaims } from '../../src/reclaim/recover.ts';
import { setAsideName } from '../../src/reclaim/set-aside.ts';
import type { RelPath } from '../../src/model/path.ts';
import { bundle } from '../support/bundle.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
const noteLease = (): void => {};

beforeEach(() => {
  process.on('SIGIO', noteLease);
  dir = testDir();
});

afterEach(() => {
  dir.remove();
  process.off('SIGIO', noteLease);
});

/** What a process leaves that was killed between the rename and the deletion. */
function diesAfterRename(name: RelPath): string {
  const aside = setAsideName({ id: 'run-1', path: name, pushed: dir.facts(name) });
  const absolute = path.join(dir.path, '.capture/reclaim', aside);
  fs.mkdirSync(path.dirname(absolute), { recursive: true });
  fs.renameSync(path.join(dir.path, name), absolute);
  return absolute;
}

describe('after a crash', () => {
  test('after the rename, the file goes back where it was', async () => {
    dir.write('out/r.dat', 'bytes');
    diesAfterRename('out/r.dat');
    expect(recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: 'out/r.dat' }]);
    expect(dir.read('out/r.dat')).toBe('bytes');
  });

  test('the file goes back also when it was written after the rename', async () => {
    dir.write('r.dat', 'bytes');
    fs.appendFileSync(diesAfterRename('r.dat'), ' and more');
    expect(recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: 'r.dat' }]);
    expect(dir.read('r.dat')).toBe('bytes and more');
  });

  test('the file goes back into its directory, which is created again', async () => {
    dir.write('out/r.dat', 'bytes');
    diesAfterRename('out/r.dat');
    fs.rmdirSync(path.join(dir.path, 'out'));
    expect(recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: 'out/r.dat' }]);
    expect(dir.read('out/r.dat')).toBe('bytes');
  });

  test('after the deletion, there is nothing to recover', async () => {
    dir.write('r.dat', 'bytes');
    fs.rmSync(diesAfterRename('r.dat'));
    expect(recoverReclaims(dir)).toEqual([]);
    expect(dir.has('r.dat')).toBe(false);
  });
});

describe('when the path was created again', () => {
  test('the deletion is finished if the file still is what was pushed', async () => {
    dir.write('r.dat', 'old');
    diesAfterRename('r.dat');
    dir.write('r.dat', 'new');
    expect(recoverReclaims(dir)).toEqual([{ kind: 'finished', path: 'r.dat' }]);
    expect(dir.names('.capture/reclaim')).toEqual([]);
    expect(dir.read('r.dat')).toBe('new');
  });

  const moved: readonly (readonly [string, (aside: string) => void])[] = [
    ['was written', (aside) => fs.appendFileSync(aside, ' and more')],
    ['has another mtime', (aside) => fs.utimesSync(aside, 1, 1)],
    ['has a second name', (aside) => fs.linkSync(aside, `${path.dirname(path.dirname(aside))}/second`)],
  ];
  test.each(moved)('the file is kept aside if it %s', async (_how, change) => {
    dir.write('r.dat', 'old');
    change(diesAfterRename('r.dat'));
    dir.write('r.dat', 'new');
    expect(recoverReclaims(dir)).toEqual([{ kind: 'aside', path: 'r.dat', aside: '.capture/aside/1-r.dat' }]);
    expect(dir.read('.capture/aside/1-r.dat')).toContain('old');
    expect(dir.read('r.dat')).toBe('new');
  });

  test('the file is kept aside if somebody still writes it', async () => {
    dir.write('r.dat', 'old');
    const fd = fs.openSync(diesAfterRename('r.dat'), 'r+');
    dir.write('r.dat', 'new');
    expect(recoverReclaims(dir)).toEqual([{ kind: 'aside', path: 'r.dat', aside: '.capture/aside/1-r.dat' }]);
    fs.closeSync(fd);
    expect(dir.read('.capture/aside/1-r.dat')).toBe('old');
  });

  test('the file is kept aside if its directory has become a link', async () => {
    dir.write('out/r.dat', 'old');
    const aside = diesAfterRename('out/r.dat');
    fs.appendFileSync(aside, ' and more');
    fs.rmdirSync(path.join(dir.path, 'out'));
    fs.symlinkSync('/tmp', path.join(dir.path, 'out'));
    expect(recoverReclaims(dir)).toEqual([
      { kind: 'aside', path: 'out/r.dat', aside: '.capture/aside/1-r.dat' },
    ]);
  });
});

describe('the name of a file that is set aside', () => {
  const names = [
    'r.dat',
    'out/deep/r.dat',
    '50% of it/%7C|%25/|',
    '~',
    'two\nlines',
    'x'.repeat(255),
    `${'deep/'.repeat(700)}r.dat`,
    `${'ä'.repeat(100)}/${'%'.repeat(100)}/${'~/'.repeat(200)}...`,
  ];
  test.each(names)('says where it stood: %j', async (name) => {
    dir.write(name, 'bytes');
    const aside = diesAfterRename(name);
    for (const part of path.relative(dir.path, aside).split('/'))
      expect(Buffer.byteLength(part)).toBeLessThanOrEqual(255);
    expect(recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: name }]);
    expect(dir.read(name)).toBe('bytes');
    expect(dir.names('.capture/reclaim')).toEqual([]);
  });

  test('a file that has another one is kept aside', async () => {
    dir.write('.capture/reclaim/run-7', 'bytes');
    expect(recoverReclaims(dir)).toEqual([
      { kind: 'aside', path: undefined, aside: '.capture/aside/1-run-7' },
    ]);
    expect(dir.read('.capture/aside/1-run-7')).toBe('bytes');
  });

  test('leads nowhere else', async () => {
    const pushed = { size: 5, mtimeNs: '1' };
    for (const evil of ['../r.dat', '/etc/r.dat', 'a/../../r.dat'])
      dir.write(`.capture/reclaim/${setAsideName({ id: 'run-1', path: evil, pushed })}`, 'bytes');
    const recovered = recoverReclaims(dir);
    expect(recovered.map(({ kind, path: to }) => [kind, to])).toEqual(
      Array.from({ length: 3 }, () => ['aside', undefined]),
    );
  });

  test('of several components leaves no directory behind that a crash has left empty', async () => {
    fs.mkdirSync(path.join(dir.path, '.capture/reclaim/run-1.5.1~long/~er'), { recursive: true });
    expect(recoverReclaims(dir)).toEqual([]);
    expect(dir.names('.capture/reclaim')).toEqual([]);
  });
});

describe('a process that is killed while it reclaims 300 files', () => {
  const moments: readonly (readonly [string, () => boolean])[] = [
    ['has set files aside', () => dir.names('.capture/reclaim').length > 0],
    ['has deleted some', () => dir.names('.capture/reclaim').length > 100 && dir.names('out').length < 100],
    [
      'has set the last aside',
      () => dir.names('out').length === 0 && dir.names('.capture/reclaim').length > 0,
    ],
  ];
  test.each(moments)('loses none when it %s', async (_when, reached) => {
    const program = await bundle('test/reclaim/fixtures/reclaim-all.ts', dir.path);
    fs.mkdirSync(path.join(dir.path, 'out'));
    const child = spawn(process.execPath, [program, dir.path, '300'], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const ended = once(child, 'exit');
    try {
      await vi.waitFor(() => expect(reached()).toBe(true), { interval: 1, timeout: 30_000 });
    } finally {
      child.kill('SIGKILL');
      await ended;
    }
    const before = [...dir.names('out'), ...dir.names('.capture/reclaim')];
    const recovered = recoverReclaims(dir);
    expect(recovered.every(({ kind }) => kind === 'put-back')).toBe(true);
    // All that the kill left is there again under its own name, with its own bytes.
    expect(dir.names('out')).toHaveLength(before.length);
    for (const name of dir.names('out')) expect(dir.read(`out/${name}`)).toBe(`bytes of out/${name}`);
    expect(dir.names('.capture/reclaim')).toEqual([]);
    expect(dir.names('.capture/aside')).toEqual([]);
    await openReclaimer(dir).close();
  });
});
