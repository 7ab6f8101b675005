import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openJournal, readJournal, type JournalEntry } from '../../src/reclaim/journal.ts';
import { openReclaimer } from '../../src/reclaim/reclaim.ts';
import { recoverReclaims } from '../../src/reclaim/recover.ts';
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

/** What a process leaves that was killed between the journal and the rename. */
async function diesAfterJournal(name: string): Promise<JournalEntry> {
  fs.mkdirSync(path.join(dir.path, '.capture/reclaim'), { recursive: true });
  const entry = { id: 'run-1', path: name, file: dir.facts(name) };
  const journal = openJournal(dir);
  await journal.begin(entry);
  await journal.close();
  return entry;
}

/** What a process leaves that was killed between the rename and the deletion. */
async function diesAfterRename(name: string): Promise<string> {
  const { id } = await diesAfterJournal(name);
  const aside = path.join(dir.path, '.capture/reclaim', id);
  fs.renameSync(path.join(dir.path, name), aside);
  return aside;
}

describe('after a crash', () => {
  test('before the rename, the file is where it was and there is nothing to recover', async () => {
    dir.write('out/r.dat', 'bytes');
    await diesAfterJournal('out/r.dat');
    expect(await recoverReclaims(dir)).toEqual([]);
    expect(dir.read('out/r.dat')).toBe('bytes');
  });

  test('after the rename, the file goes back where it was', async () => {
    dir.write('out/r.dat', 'bytes');
    await diesAfterRename('out/r.dat');
    expect(await recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: 'out/r.dat' }]);
    expect(dir.read('out/r.dat')).toBe('bytes');
  });

  test('the file goes back also when it was written after the rename', async () => {
    dir.write('r.dat', 'bytes');
    fs.appendFileSync(await diesAfterRename('r.dat'), ' and more');
    expect(await recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: 'r.dat' }]);
    expect(dir.read('r.dat')).toBe('bytes and more');
  });

  test('the file goes back into its directory, which is made anew', async () => {
    dir.write('out/r.dat', 'bytes');
    await diesAfterRename('out/r.dat');
    fs.rmdirSync(path.join(dir.path, 'out'));
    expect(await recoverReclaims(dir)).toEqual([{ kind: 'put-back', path: 'out/r.dat' }]);
    expect(dir.read('out/r.dat')).toBe('bytes');
  });

  test('after the deletion, there is nothing to recover', async () => {
    dir.write('r.dat', 'bytes');
    fs.rmSync(await diesAfterRename('r.dat'));
    expect(await recoverReclaims(dir)).toEqual([]);
    expect(dir.has('r.dat')).toBe(false);
  });
});

describe('when the path was made anew', () => {
  test('the deletion is finished if the file still is what was pushed', async () => {
    dir.write('r.dat', 'old');
    await diesAfterRename('r.dat');
    dir.write('r.dat', 'new');
    expect(await recoverReclaims(dir)).toEqual([{ kind: 'finished', path: 'r.dat' }]);
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
    change(await diesAfterRename('r.dat'));
    dir.write('r.dat', 'new');
    expect(await recoverReclaims(dir)).toEqual([
      { kind: 'aside', path: 'r.dat', aside: '.capture/aside/1-r.dat' },
    ]);
    expect(dir.read('.capture/aside/1-r.dat')).toContain('old');
    expect(dir.read('r.dat')).toBe('new');
  });

  test('the file is kept aside if somebody still writes it', async () => {
    dir.write('r.dat', 'old');
    const fd = fs.openSync(await diesAfterRename('r.dat'), 'r+');
    dir.write('r.dat', 'new');
    expect(await recoverReclaims(dir)).toEqual([
      { kind: 'aside', path: 'r.dat', aside: '.capture/aside/1-r.dat' },
    ]);
    fs.closeSync(fd);
    expect(dir.read('.capture/aside/1-r.dat')).toBe('old');
  });

  test('the file is kept aside if its directory has become a link', async () => {
    dir.write('out/r.dat', 'old');
    const aside = await diesAfterRename('out/r.dat');
    fs.appendFileSync(aside, ' and more');
    fs.rmdirSync(path.join(dir.path, 'out'));
    fs.symlinkSync('/tmp', path.join(dir.path, 'out'));
    expect(await recoverReclaims(dir)).toEqual([
      { kind: 'aside', path: 'out/r.dat', aside: '.capture/aside/1-r.dat' },
    ]);
  });
});

describe('the journal', () => {
  test('a file that it does not name is kept aside', async () => {
    dir.write('.capture/reclaim/run-7', 'bytes');
    expect(await recoverReclaims(dir)).toEqual([
      { kind: 'aside', path: undefined, aside: '.capture/aside/1-run-7' },
    ]);
    expect(dir.read('.capture/aside/1-run-7')).toBe('bytes');
  });

  test('is read past a torn line, and a path in it that leads out is not believed', async () => {
    dir.write('r.dat', 'bytes');
    await diesAfterRename('r.dat');
    const good = dir.read('.capture/journal').trim();
    const evil = JSON.stringify({ ...JSON.parse(good), id: 'run-2', path: '../r.dat' });
    dir.write('.capture/journal', `${good.slice(0, 40)}\n${good}\n${evil}\n${good.slice(-30)}`);
    dir.write('.capture/reclaim/run-2', 'other');
    expect([...readJournal(dir).keys()]).toEqual(['run-1']);
    expect(await recoverReclaims(dir)).toEqual([
      { kind: 'put-back', path: 'r.dat' },
      { kind: 'aside', path: undefined, aside: '.capture/aside/1-run-2' },
    ]);
  });

  test('makes the next entries wait when its reserve is full, and takes them when the others are done', async () => {
    dir.write('r.dat', 'bytes');
    fs.mkdirSync(path.join(dir.path, '.capture'));
    const file = dir.facts('r.dat');
    const journal = openJournal(dir);
    const size = dir.facts('.capture/journal').size;
    const begun: string[] = [];
    const longName = 'x'.repeat(4000);
    const all = Array.from({ length: 40 }, async (_, n) => {
      await journal.begin({ id: `run-${n}`, path: longName, file });
      begun.push(`run-${n}`);
    });
    await vi.waitFor(() => expect(begun.length).toBeGreaterThan(0), { interval: 1 });
    const first = [...begun];
    expect(first.length).toBeLessThan(40);
    expect([...readJournal(dir).keys()]).toEqual(first);
    for (const id of first) journal.done(id);
    await Promise.all(all);
    expect(begun).toHaveLength(40);
    expect([...readJournal(dir).keys()]).toEqual(expect.arrayContaining(begun.slice(first.length)));
    for (const id of begun) journal.done(id);
    expect(dir.facts('.capture/journal').size).toBe(size);
    await journal.close();
    expect(dir.has('.capture/journal')).toBe(false);
  });
});

describe('a process that is killed while it reclaims 300 files', () => {
  const moments: readonly (readonly [string, () => boolean])[] = [
    ['has written its journal', () => readJournal(dir).size > 0],
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
    const recovered = await recoverReclaims(dir);
    expect(recovered.every(({ kind }) => kind === 'put-back')).toBe(true);
    // All that the kill left is there again under its own name, with its own bytes.
    expect(dir.names('out')).toHaveLength(before.length);
    for (const name of dir.names('out')) expect(dir.read(`out/${name}`)).toBe(`bytes of out/${name}`);
    expect(dir.names('.capture/reclaim')).toEqual([]);
    expect(dir.names('.capture/aside')).toEqual([]);
    await openReclaimer(dir).close();
  });
});
