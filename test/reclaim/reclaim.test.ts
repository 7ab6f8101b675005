import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { decodePath, encodePath } from '../../src/model/path.ts';
import { fileFacts } from '../../src/native/files.ts';
import { openReclaimer, type Reclaimer } from '../../src/reclaim/reclaim.ts';
import { StoreError } from '../../src/store/contract/store.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const WHILE_RUNNING = { atEnd: false };
const AT_END = { atEnd: true };

let dir: TestDir;
let reclaimer: Reclaimer;
const noteLease = (): void => {};

beforeEach(() => {
  process.on('SIGIO', noteLease);
  dir = testDir();
  reclaimer = openReclaimer(dir);
});

afterEach(async () => {
  await reclaimer.close();
  dir.remove();
  process.off('SIGIO', noteLease);
  vi.restoreAllMocks();
});

/** The path of the one file that is set aside, once it is. */
async function setAside(): Promise<string> {
  await vi.waitFor(() => expect(dir.names('.capture/reclaim')).toHaveLength(1), { interval: 1 });
  return path.join(dir.path, '.capture/reclaim', dir.names('.capture/reclaim')[0] ?? '');
}

/** The file itself, or the one in the directories of a long name. */
async function fileIn(at: string): Promise<string> {
  if (fs.lstatSync(at).isFile()) return at;
  return fileIn(path.join(at, fs.readdirSync(at)[0] ?? ''));
}

describe('a file that is what was pushed', () => {
  test('is deleted, and nothing of it stays behind', async () => {
    dir.write('out/r.dat', 'bytes');
    expect(await reclaimer.reclaim('out/r.dat', dir.facts('out/r.dat'), WHILE_RUNNING)).toEqual({
      kind: 'reclaimed',
    });
    expect(dir.names('out')).toEqual([]);
    await reclaimer.close();
    expect(dir.names('.capture/reclaim')).toEqual([]);
    reclaimer = openReclaimer(dir);
  });

  test('is deleted although its name is no UTF-8', async () => {
    const name = decodePath(Buffer.from([0x72, 0xff, 0x2e, 0x64]));
    const absolute = encodePath(`${dir.path}/${name}`);
    fs.writeFileSync(absolute, 'bytes');
    const facts = fileFacts(fs.lstatSync(absolute, { bigint: true }));
    expect(await reclaimer.reclaim(name, facts, WHILE_RUNNING)).toEqual({ kind: 'reclaimed' });
    expect(fs.existsSync(absolute)).toBe(false);
  });

  test('is deleted when the task makes its path anew meanwhile, and the new file is not touched', async () => {
    dir.write('r.dat', 'old');
    const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), WHILE_RUNNING);
    await setAside();
    dir.write('r.dat', 'new');
    expect(await outcome).toEqual({ kind: 'reclaimed' });
    expect(dir.read('r.dat')).toBe('new');
    expect(dir.names('.capture/reclaim')).toEqual([]);
  });

  test.each([`${'d/'.repeat(300)}r.dat`, 'x'.repeat(255)])(
    'is deleted, however long its path is, and is put back when it was written meanwhile',
    async (name) => {
      dir.write(name, 'bytes');
      const outcome = reclaimer.reclaim(name, dir.facts(name), WHILE_RUNNING);
      fs.appendFileSync(await fileIn(await setAside()), ' more');
      expect(await outcome).toEqual({ kind: 'changed' });
      expect(dir.read(name)).toBe('bytes more');
      expect(dir.names('.capture/reclaim')).toEqual([]);
      expect(await reclaimer.reclaim(name, dir.facts(name), WHILE_RUNNING)).toEqual({ kind: 'reclaimed' });
      expect(dir.has(name)).toBe(false);
      expect(dir.names('.capture/reclaim')).toEqual([]);
    },
  );

  test('stays while it has a second name, until the end', async () => {
    dir.write('r.dat', 'bytes');
    fs.linkSync(path.join(dir.path, 'r.dat'), path.join(dir.path, 'second'));
    const facts = dir.facts('r.dat');
    expect(await reclaimer.reclaim('r.dat', facts, WHILE_RUNNING)).toEqual({ kind: 'linked' });
    expect(dir.has('r.dat')).toBe(true);
    expect(await reclaimer.reclaim('r.dat', facts, AT_END)).toEqual({ kind: 'reclaimed' });
    expect(dir.read('second')).toBe('bytes');
  });
});

describe('a file that is not what was pushed stays where it is', () => {
  const changes: readonly (readonly [string, (absolute: string) => void])[] = [
    ['written again', (absolute) => fs.writeFileSync(absolute, 'other')],
    ['given another mtime', (absolute) => fs.utimesSync(absolute, 1, 1)],
    ['given another mode', (absolute) => fs.chmodSync(absolute, 0o600)],
    [
      'replaced by a rename',
      (absolute) => {
        fs.writeFileSync(`${absolute}.new`, 'bytes');
        fs.renameSync(`${absolute}.new`, absolute);
      },
    ],
    [
      'replaced by a link',
      (absolute) => {
        fs.renameSync(absolute, `${absolute}.real`);
        fs.symlinkSync('r.dat.real', absolute);
      },
    ],
    [
      'replaced by a directory',
      (absolute) => {
        fs.rmSync(absolute);
        fs.mkdirSync(absolute);
      },
    ],
  ];
  test.each(changes)('when it was %s after the snapshot', async (_how, change) => {
    const absolute = dir.write('r.dat', 'bytes');
    const pushed = dir.facts('r.dat');
    change(absolute);
    expect(await reclaimer.reclaim('r.dat', pushed, AT_END)).toEqual({ kind: 'changed' });
    expect(dir.has('r.dat')).toBe(true);
  });

  test('when a directory above it has become a link', async () => {
    dir.write('out/r.dat', 'bytes');
    const pushed = dir.facts('out/r.dat');
    fs.renameSync(path.join(dir.path, 'out'), path.join(dir.path, 'real'));
    fs.symlinkSync('real', path.join(dir.path, 'out'));
    expect(await reclaimer.reclaim('out/r.dat', pushed, AT_END)).toEqual({ kind: 'changed' });
    expect(dir.read('real/r.dat')).toBe('bytes');
  });

  test('when a directory above it becomes a link between the last look and the rename', async () => {
    dir.write('out/r.dat', 'bytes');
    const pushed = dir.facts('out/r.dat');
    const fstat = fs.fstatSync;
    // The last look at the open file.
    const spy = vi.spyOn(fs, 'fstatSync').mockImplementationOnce(((
      fd: number,
      options: fs.StatSyncOptions,
    ) => {
      fs.renameSync(path.join(dir.path, 'out'), path.join(dir.path, 'real'));
      fs.symlinkSync('real', path.join(dir.path, 'out'));
      return fstat(fd, options);
    }) as typeof fs.fstatSync);
    try {
      expect(await reclaimer.reclaim('out/r.dat', pushed, AT_END)).toEqual({ kind: 'changed' });
      expect(spy).toHaveBeenCalled();
    } finally {
      spy.mockRestore();
    }
    expect(dir.read('real/r.dat')).toBe('bytes');
  });

  test('and one that the task removed is gone', async () => {
    const absolute = dir.write('r.dat', 'bytes');
    const pushed = dir.facts('r.dat');
    fs.rmSync(absolute);
    expect(await reclaimer.reclaim('r.dat', pushed, AT_END)).toEqual({ kind: 'gone' });
  });
});

describe('a file that somebody has open for writing', () => {
  test('stays where it is', async () => {
    const fd = fs.openSync(dir.write('r.dat', 'bytes'), 'r+');
    expect(await reclaimer.reclaim('r.dat', dir.facts('r.dat'), AT_END)).toEqual({ kind: 'reopened' });
    fs.closeSync(fd);
    expect(dir.read('r.dat')).toBe('bytes');
  });

  test('is put back when the writer shows itself only after the move', async () => {
    dir.write('r.dat', 'bytes');
    const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), AT_END);
    const fd = fs.openSync(await setAside(), 'r+');
    expect(await outcome).toEqual({ kind: 'reopened' });
    fs.writeSync(fd, 'BYTES');
    fs.closeSync(fd);
    expect(dir.read('r.dat')).toBe('BYTES');
  });

  test('is put back when it was written and closed after the move, with its old size and mtime', async () => {
    dir.write('r.dat', 'bytes');
    fs.utimesSync(path.join(dir.path, 'r.dat'), 1000, 1000);
    const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), AT_END);
    const aside = await setAside();
    fs.writeFileSync(aside, 'BYTES', { flag: 'r+' });
    fs.utimesSync(aside, 1000, 1000);
    expect(await outcome).toEqual({ kind: 'changed' });
    expect(dir.read('r.dat')).toBe('BYTES');
  });

  test('is put back into its directory, which is created again when the task has removed it', async () => {
    dir.write('out/r.dat', 'bytes');
    const outcome = reclaimer.reclaim('out/r.dat', dir.facts('out/r.dat'), AT_END);
    const aside = await setAside();
    fs.rmdirSync(path.join(dir.path, 'out'));
    fs.appendFileSync(aside, ' more');
    expect(await outcome).toEqual({ kind: 'changed' });
    expect(dir.read('out/r.dat')).toBe('bytes more');
  });
});

describe('a file that moved while the task made its path anew', () => {
  const remade = async (): Promise<string> => {
    dir.write('r.dat', 'old');
    const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), WHILE_RUNNING);
    fs.appendFileSync(await setAside(), ' and more');
    dir.write('r.dat', 'new');
    const result = await outcome;
    return result.kind === 'remade' ? result.aside : result.kind;
  };

  test('is kept aside, and the new one keeps its name', async () => {
    expect(await remade()).toBe('.capture/aside/1-r.dat');
    expect(dir.read('.capture/aside/1-r.dat')).toBe('old and more');
    expect(dir.read('r.dat')).toBe('new');
  });

  test('is discarded when it is what was pushed', async () => {
    const aside = await remade();
    expect(reclaimer.discard(aside, dir.facts(aside))).toEqual({ kind: 'reclaimed' });
    expect(dir.names('.capture/aside')).toEqual([]);
  });

  test('is not discarded when it was written after the push', async () => {
    const aside = await remade();
    const pushed = dir.facts(aside);
    fs.appendFileSync(path.join(dir.path, aside), ' still');
    expect(reclaimer.discard(aside, pushed)).toEqual({ kind: 'changed' });
    expect(dir.read(aside)).toBe('old and more still');
  });

  test('is not discarded while somebody writes it', async () => {
    const aside = await remade();
    const fd = fs.openSync(path.join(dir.path, aside), 'r+');
    expect(reclaimer.discard(aside, dir.facts(aside))).toEqual({ kind: 'reopened' });
    fs.closeSync(fd);
  });
});

describe('many files', () => {
  test('wait together, not one after the other', async () => {
    const names = Array.from({ length: 200 }, (_, n) => `r${n}.dat`);
    for (const name of names) dir.write(name, name);
    let together = 0;
    const unlink = fs.unlinkSync;
    vi.spyOn(fs, 'unlinkSync').mockImplementation((file) => {
      together = Math.max(together, dir.names('.capture/reclaim').length);
      unlink(file);
    });
    const outcomes = await Promise.all(
      names.map((name) => reclaimer.reclaim(name, dir.facts(name), WHILE_RUNNING)),
    );
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['reclaimed']));
    expect(together).toBe(200);
  });

  test('are all deleted, 2,000 of them', async () => {
    const names = Array.from({ length: 2000 }, (_, n) => `out/r${n}.dat`);
    for (const name of names) dir.write(name, name);
    const outcomes = await Promise.all(
      names.map((name) => reclaimer.reclaim(name, dir.facts(name), WHILE_RUNNING)),
    );
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(['reclaimed']));
    expect(dir.names('out')).toEqual([]);
  });
});

test('an abort puts the file back and throws its reason', async () => {
  dir.write('r.dat', 'bytes');
  const stop = new AbortController();
  const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), WHILE_RUNNING, stop.signal);
  const caught = expect(outcome).rejects.toThrow('enough');
  await setAside();
  stop.abort(new Error('enough'));
  await caught;
  expect(dir.read('r.dat')).toBe('bytes');
});

test('close waits for what is under way', async () => {
  dir.write('r.dat', 'bytes');
  const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), WHILE_RUNNING);
  await reclaimer.close();
  expect(dir.has('r.dat')).toBe(false);
  expect(await outcome).toEqual({ kind: 'reclaimed' });
  reclaimer = openReclaimer(dir);
});

test('the store is looked at just before the deletion: one that is lost deletes nothing', async () => {
  dir.write('r.dat', 'stored');
  const lost = new StoreError('lost', 'the store is gone');
  let asked = 0;
  const confirm = async (): Promise<void> => {
    asked += 1;
    expect(dir.has('r.dat')).toBe(false); // set aside already
    throw lost;
  };
  const outcome = reclaimer.reclaim('r.dat', dir.facts('r.dat'), { ...AT_END, confirm });
  await expect(outcome).rejects.toBe(lost);
  expect(asked).toBe(1);
  expect(dir.read('r.dat')).toBe('stored');
});
