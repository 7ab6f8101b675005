import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { newDeferred } from '../../src/model/waiting.ts';
import type { FateOf, UnsavedFate } from '../../src/scratch/left-work.ts';
import { openScratch, type Scratch, type TaskDir } from '../../src/scratch/scratch.ts';
import { NOBODY } from '../support/other-user.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
let said: string[];
beforeEach(() => {
  // On a disk.
  dir = testDir('/var/tmp');
  said = [];
});
afterEach(() => dir.remove());

const open = (
  hasAllTries = false,
  stopping?: AbortSignal,
  below = dir.path,
  fateOf?: FateOf,
): Promise<Scratch> =>
  openScratch(below, {
    ...(fateOf === undefined ? {} : { fateOf }),
    tasksAtOnce: 1,
    hasAllTries,
    availableBytes: 0,
    nameIt: (what) => what,
    stopping,
    log: { warn: (text) => said.push(text) },
  });

/** With a file in it, and something said. */
function begin(scratch: Scratch, index: Parameters<Scratch['dirFor']>[0], text = 'x'): TaskDir {
  const dir = scratch.dirFor(index);
  dir.make();
  // What a start leaves whose task has not begun.
  fs.writeFileSync(path.join(dir.path, '.capture/lock'), '');
  fs.writeFileSync(path.join(dir.path, 'file'), text);
  fs.writeFileSync(dir.log, 'said');
  return dir;
}

/** As the sidecar does it. */
function taskBegins({ path: workdir }: Pick<TaskDir, 'path'>): void {
  fs.writeFileSync(path.join(workdir, '.capture/attempt.json'), '{"runToken":"t-1"}');
  fs.rmSync(path.join(workdir, '.capture/fresh'), { force: true });
}

it('removes what is done, keeps what failed, and is gone if nothing is kept', async () => {
  const one = await open();
  const [done, failed] = [begin(one, 1), begin(one, 2)];
  await done.remove();
  const kept = await failed.keep();
  await one.close();
  expect(kept.map((name) => path.basename(name))).toEqual(['2.failed', '2.failed.log']);
  expect(fs.readdirSync(one.root).toSorted()).toEqual(['2.failed', '2.failed.log']);
  const other = await open();
  begin(other, 1);
  await other.close();
  expect(fs.existsSync(other.root)).toBe(false);
});

it('keeps of a failed task in memory only the log, unless something of it is stored nowhere else', async () => {
  const memory = testDir('/dev/shm');
  onTestFinished(() => memory.remove());
  const one = await open(false, undefined, memory.path);
  const [failed, unsaved] = [begin(one, 1), begin(one, 2)];
  taskBegins(unsaved);
  expect(await failed.keep()).toEqual([`${one.root}/1.failed.log`]);
  expect(await unsaved.keep()).toHaveLength(2);
  await one.close();
  expect(fs.readdirSync(one.root).toSorted()).toEqual(['1.failed.log', '2.failed', '2.failed.log']);
});

it('removes what it and earlier runners have kept of an index that is done, but for unsaved files', async () => {
  const earlier = await open();
  const alone = await open();
  const unsaved = begin(earlier, 3);
  taskBegins(unsaved);
  for (const task of [unsaved, begin(earlier, 3), begin(earlier, 33), begin(alone, 3)]) await task.keep(); // oxlint-disable-line no-await-in-loop -- their names follow each other
  await Promise.all([earlier, alone].map((scratch) => scratch.close()));
  const one = await open();
  const [mine, others] = [begin(one, 3), begin(one, 3, 'other')];
  fs.writeFileSync(others.log, 'of another array');
  await Promise.all([mine, others].map((task) => task.keep()));
  await one.removeKept(3, (log) => fs.readFileSync(log, 'utf8') === 'said');
  expect(fs.readdirSync(one.root).toSorted()).toEqual(['3-2.failed', '3-2.failed.log', 'lock']);
  expect(fs.readdirSync(earlier.root).toSorted()).toEqual([
    '3.failed',
    '3.failed.log',
    '33.failed',
    '33.failed.log',
  ]);
  expect(fs.existsSync(alone.root)).toBe(false);
  await one.close();
});

it('tells a full file system from a directory that cannot be written', async () => {
  const fails = vi.spyOn(fs, 'mkdtempSync');
  onTestFinished(() => fails.mockRestore());
  for (const [code, status, hint] of [
    ['ENOSPC', 69, /make room there/],
    ['EACCES', 64, /can be written/],
  ] as const) {
    fails.mockImplementation(() => {
      throw Object.assign(new Error(code), { code });
    });
    // oxlint-disable-next-line no-await-in-loop -- both fail at once
    await expect(open()).rejects.toMatchObject({ status, hint: expect.stringMatching(hint) });
  }
});

it('makes room of what failed tasks have left, but for logs, and for files that are stored nowhere else', async () => {
  const one = await open();
  const [failed, unsaved, running] = [begin(one, 1), begin(one, 2), begin(one, 3)];
  taskBegins(unsaved);
  await Promise.all([failed, unsaved].map((task) => task.keep()));
  expect(one.hasRoom()).toBe(true);
  expect(await one.makeRoom()).toEqual([`${failed.path}.failed`]);
  expect(fs.existsSync(running.path)).toBe(true);
  await one.close();
  const left = ['1.failed.log', '2.failed', '2.failed.log'];
  expect(fs.readdirSync(one.root).toSorted()).toEqual(left);
});

it('says what cannot be removed, and removes all else; the next runner tries again', async () => {
  const killed = await open();
  for (const index of [1, 2, 3]) begin(killed, index);
  const unlink = fs.unlinkSync;
  const fails = vi.spyOn(fs, 'unlinkSync').mockImplementation((file) => {
    if (String(file).endsWith('/2.log')) throw Object.assign(new Error('EPERM'), { code: 'EPERM' });
    unlink(file);
  });
  fs.closeSync(killed.lockFd);
  const next = await open();
  expect(fs.readdirSync(killed.root).toSorted()).toEqual(['2.log', 'lock']);
  expect(said).toEqual([`${killed.root}/2.log cannot be removed: EPERM`]);
  await next.close();
  fails.mockRestore();
  await (await open()).close();
  expect(fs.existsSync(killed.root)).toBe(false);
});

it('gives each start an empty directory of its own, named for its index', async () => {
  const one = await open();
  const names = (): readonly string[] => [begin(one, 3), begin(one, 3)].map((dir) => path.basename(dir.path));
  expect(names()).toEqual(['3', '3-2']);
  const failed = begin(one, 4);
  await failed.keep();
  // What is kept of the earlier one stays.
  const again = begin(one, 4);
  expect(path.basename(again.path)).toBe('4-2');
  expect((await again.keep()).map((name) => path.basename(name))).toEqual(['4-2.failed', '4-2.failed.log']);
  await one.close();
});

it.each([
  ['begins with what the earlier ones wrote, if all are made here', true, 'first second'],
  ['is empty, if another task may have the name next', false, 'second'],
])('the log of a later try %s', async (_, hasAllTries, all) => {
  const one = await open(hasAllTries);
  const first = begin(one, 3);
  fs.writeFileSync(first.log, 'first ');
  await first.clear();
  const next = one.dirFor(3);
  next.make();
  expect(next.path).toBe(first.path);
  expect(fs.readdirSync(next.path)).toEqual(['.capture']);
  fs.appendFileSync(next.log, 'second');
  const [, log = ''] = await next.keep();
  expect(fs.readFileSync(log, 'utf8')).toBe(all);
  await one.close();
});

it('gives the next try an empty directory, and moves away what is stored nowhere, with what it said', async () => {
  const one = await open();
  const first = begin(one, 1);
  const aside = first.setAside();
  const next = one.dirFor(1);
  next.make();
  expect(next.path).toBe(first.path);
  expect(fs.readdirSync(next.path)).toEqual(['.capture']);
  await one.close();
  expect(aside.map((name) => path.basename(name))).toEqual(['1.unsaved-1', '1.unsaved-1.log']);
  expect(fs.readFileSync(path.join(aside[0] ?? '', 'file'), 'utf8')).toBe('x');
});

it('keeps what is there of a task that has removed its own work directory', async () => {
  const one = await open();
  const removed = begin(one, 1);
  fs.rmSync(removed.path, { recursive: true });
  expect(await removed.keep()).toEqual([path.join(one.root, '1.failed.log')]);
  await one.close();
});

it('removes what a killed runner has left, but for failed tasks and unsaved files, and nothing of one that lives', async () => {
  // The kernel frees the lock of a process that dies: closing the file does the same.
  const [killed, alive, unsaved, failed] = [await open(), await open(), await open(), await open()];
  const [, , toSetAside, toKeep] = [killed, alive, unsaved, failed].map((one) => {
    for (const index of [2, 2]) begin(one, index);
    return begin(one, 1);
  });
  toSetAside?.setAside();
  await toKeep?.keep();
  for (const { lockFd } of [killed, unsaved, failed]) fs.closeSync(lockFd);
  const next = await open();
  expect(fs.existsSync(killed.root)).toBe(false);
  expect(fs.readdirSync(alive.root).toSorted()).toEqual(
    ['1', '1.log', '2', '2-2', '2-2.log', '2.log', 'lock'].toSorted(),
  );
  expect(fs.readdirSync(unsaved.root).toSorted()).toEqual(['1.unsaved-1', '1.unsaved-1.log']);
  expect(fs.readdirSync(failed.root).toSorted()).toEqual(['1.failed', '1.failed.log']);
  await alive.close();
  await next.close();
});

it('does not wait for what a killed runner has left, if it is told to stop', async () => {
  const killed = await open();
  begin(killed, 1);
  fs.closeSync(killed.lockFd);
  const stopped = await open(false, AbortSignal.abort());
  expect(fs.existsSync(killed.root)).toBe(true);
  await vi.waitFor(() => expect(fs.existsSync(killed.root)).toBe(false), 10_000);
  await stopped.close();
});

it('counts a directory as unsaved from which the task has removed our marks, unless no task has begun there', async () => {
  const scratch = await open();
  const [removed, begun, empty] = [1, 2, 3].map((index) => begin(scratch, index));
  fs.rmSync(path.join(removed?.path ?? '', '.capture'), { recursive: true });
  for (const name of fs.readdirSync(empty?.path ?? ''))
    fs.rmSync(path.join(empty?.path ?? '', name), { recursive: true });
  expect([removed, begun, empty].map((dir) => dir?.isUnsaved())).toEqual([true, false, false]);
  expect([removed, begun, empty].map((dir) => dir?.isFenced())).toEqual([false, true, true]);
  await scratch.close();
  expect(fs.readdirSync(scratch.root).toSorted()).toEqual(['1.unsaved-1', '1.unsaved-1.log']);
});

it.each<[string, (workdir: string) => void]>([
  [
    'the facts of the attempt, and of nothing else',
    (at) => fs.rmSync(path.join(at, '.capture/attempt.json')),
  ],
  [
    'all marks, and put a link to marks of another run there',
    (at) => {
      fs.renameSync(path.join(at, '.capture'), path.join(at, 'other'));
      fs.writeFileSync(path.join(at, 'other/saved'), '');
      fs.symlinkSync('other', path.join(at, '.capture'));
    },
  ],
  [
    'the directory, and put a link there',
    (at) => {
      fs.renameSync(at, `${at}.moved`);
      fs.mkdirSync(path.join(dir.path, 'other'));
      fs.symlinkSync(path.join(dir.path, 'other'), at);
    },
  ],
  [
    'the directory, and put a file there',
    (at) => {
      fs.renameSync(at, `${at}.moved`);
      fs.writeFileSync(at, 'mine');
    },
  ],
])('keeps the files of a task that has removed %s', async (_, act) => {
  const scratch = await open();
  const task = begin(scratch, 1);
  taskBegins(task);
  act(task.path);
  expect([task.isUnsaved(), task.isFenced()]).toEqual([true, false]);
  await scratch.close();
  const kept = fs.readdirSync(scratch.root, { recursive: true }).map(String);
  expect(kept.filter((name) => name.endsWith('unsaved-1/file'))).toHaveLength(1);
});

it('keeps what it may not read', async () => {
  const scratch = await open();
  const task = begin(scratch, 1);
  fs.writeFileSync(path.join(task.path, '.capture/saved'), '');
  expect(task.isUnsaved()).toBe(false);
  const opens = fs.openSync;
  const fails = vi.spyOn(fs, 'openSync').mockImplementation((file, ...rest) => {
    if (String(file).endsWith('.capture')) throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
    return opens(file, ...rest);
  });
  onTestFinished(() => fails.mockRestore());
  expect(task.isUnsaved()).toBe(true);
  await scratch.close();
  expect(fs.readdirSync(scratch.root).toSorted()).toEqual(['1.unsaved-1', '1.unsaved-1.log']);
});

it.each<[string, (root: string) => void, readonly string[]]>([
  ['removed if nothing is in doubt', () => undefined, []],
  [
    'set aside if its processes may be in another PID namespace',
    (root) => {
      const lock = path.join(root, 'lock');
      fs.writeFileSync(lock, fs.readFileSync(lock, 'utf8').replace(/pid:\[\d+\]/, 'pid:[1]'));
    },
    ['1.unsaved-1', '1.unsaved-1.log'],
  ],
  [
    'set aside if it cannot be told whether its sidecar lives',
    (root) => {
      fs.rmSync(path.join(root, '1/.capture/lock'));
      fs.mkdirSync(path.join(root, '1/.capture/lock'));
    },
    ['1.unsaved-1', '1.unsaved-1.log'],
  ],
  [
    'set aside if what capture noted of its attempt is damaged',
    (root) => fs.writeFileSync(path.join(root, '1/.capture/attempt.json'), '{"runTok'),
    ['1.unsaved-1', '1.unsaved-1.log'],
  ],
  [
    'set aside if what capture noted of its attempt cannot be read',
    (root) => {
      const { ino } = fs.statSync(path.join(root, '1/.capture/attempt.json'));
      const reads = fs.readFileSync;
      const fails = vi.spyOn(fs, 'readFileSync').mockImplementation((file, ...rest) => {
        if (typeof file === 'number' && fs.fstatSync(file).ino === ino)
          throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' });
        return reads(file, ...rest);
      });
      onTestFinished(() => fails.mockRestore());
    },
    ['1.unsaved-1', '1.unsaved-1.log'],
  ],
])('what a killed task has left, and is found in the store, is %s', async (_, act, left) => {
  const killed = await open();
  taskBegins(begin(killed, 1));
  act(killed.root);
  fs.closeSync(killed.lockFd);
  const next = await open(false, undefined, dir.path, async () => 'stored');
  expect(fs.existsSync(killed.root) ? fs.readdirSync(killed.root).toSorted() : []).toEqual(left);
  await next.close();
});

it('waits only so long for what a killed runner has left', async () => {
  const killed = await open();
  taskBegins(begin(killed, 1));
  fs.closeSync(killed.lockFd);
  const asked = newDeferred<void>();
  const answer = newDeferred<UnsavedFate>();
  const next = await open(false, undefined, dir.path, () => (asked.resolve(), answer.promise));
  await asked.promise;
  expect(fs.readdirSync(killed.root)).toContain('1');
  answer.resolve('stored');
  await vi.waitFor(() => expect(fs.existsSync(killed.root)).toBe(false), 10_000);
  await next.close();
});

it.runIf(process.getuid?.() === 0)('does not open what another user has put there', async () => {
  const theirs = path.join(dir.path, 'capture-work.theirs');
  fs.mkdirSync(theirs);
  fs.chownSync(theirs, NOBODY, NOBODY);
  const before = fs.statSync(theirs, { bigint: true }).ctimeNs;
  const one = await open();
  await one.removeKept(1, () => true);
  await one.close();
  expect(fs.statSync(theirs, { bigint: true }).ctimeNs).toBe(before);
});

it('sweeps, and removes what is kept, beside directories that nobody else may look at', async () => {
  const [killed, earlier] = [await open(), await open()];
  begin(killed, 1);
  await begin(earlier, 3).keep();
  fs.closeSync(killed.lockFd);
  await earlier.close();
  // As another user's FUSE mounts. A listing names some before ours, whatever its order is.
  for (let n = 0; n < 30; n += 1) fs.mkdirSync(path.join(dir.path, `capture-work.closed-${n}`));
  const look = fs.lstatSync;
  const fails = vi.spyOn(fs, 'lstatSync').mockImplementation((file, options) => {
    if (String(file).includes('closed')) throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
    return look(file, options);
  });
  onTestFinished(() => fails.mockRestore());
  const next = await open();
  expect(fs.existsSync(killed.root)).toBe(false);
  await next.removeKept(3, () => true);
  expect(fs.existsSync(earlier.root)).toBe(false);
  await next.close();
});

it('looks for what is kept again when that has taken a small part of the time since', async () => {
  const kept = async (): Promise<string> => {
    const earlier = await open();
    await begin(earlier, 3).keep();
    await earlier.close();
    return earlier.root;
  };
  const one = await open();
  let nowMs = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const opens = fs.promises.opendir;
  const listings = vi.spyOn(fs.promises, 'opendir').mockImplementation((at, ...rest) => {
    if (at === dir.path) nowMs += 1000;
    return opens(at, ...rest);
  });
  onTestFinished(() => [clock, listings].forEach((spy) => spy.mockRestore()));
  const remove = async (): Promise<number> => {
    listings.mockClear();
    await Promise.all([1, 2, 3].map((index) => one.removeKept(index, () => true)));
    return listings.mock.calls.filter(([at]) => at === dir.path).length;
  };
  const first = await kept();
  expect(await remove()).toBe(1);
  expect(fs.existsSync(first)).toBe(false);
  const later = await kept();
  nowMs += 15_000;
  expect(await remove()).toBe(0);
  nowMs += 15_000;
  expect(await remove()).toBe(1);
  expect(fs.existsSync(later)).toBe(false);
  await one.close();
});

it('takes a directory for that of a fenced attempt only if the sidecar has said so', async () => {
  const scratch = await open();
  const dirs = ['', 'in vain', 'fenced'].map((text, at) => {
    const dir = begin(scratch, at + 1);
    taskBegins(dir);
    fs.writeFileSync(path.join(dir.path, '.capture/saved'), text);
    return dir;
  });
  expect(dirs.map((dir) => dir.isFenced())).toEqual([false, false, true]);
  await scratch.close();
});

it('leaves what a task had in its work directory when all was killed, unless it was saved by then', async () => {
  const killed = await open();
  const dirs = ([1, 2, 2, 'task'] as const).map((index) => {
    const dir = begin(killed, index);
    taskBegins(dir);
    return dir;
  });
  fs.writeFileSync(path.join(dirs[0]?.path ?? '', '.capture/saved'), '');
  expect(dirs.map((dir) => dir.isUnsaved())).toEqual([false, true, true, true]);
  fs.closeSync(killed.lockFd);
  const next = await open();
  expect(fs.readdirSync(killed.root).toSorted()).toEqual([
    '2-2.unsaved-1',
    '2-2.unsaved-1.log',
    '2.unsaved-1',
    '2.unsaved-1.log',
    'task.unsaved-1',
    'task.unsaved-1.log',
  ]);
  expect(fs.readFileSync(path.join(killed.root, '2.unsaved-1/file'), 'utf8')).toBe('x');
  expect(said.toSorted()).toEqual([
    `what a task of a run that was killed may not have stored stays in ${killed.root}/task.unsaved-1`,
    `what index 2 of a run that was killed may not have stored stays in ${killed.root}/2-2.unsaved-1`,
    `what index 2 of a run that was killed may not have stored stays in ${killed.root}/2.unsaved-1`,
  ]);
  await next.close();
});

it('leaves the log with what a killed task had, whichever of the two a listing of the directory names first', async () => {
  const killed = await open();
  const indices = Array.from({ length: 50 }, (_, index) => index);
  for (const index of indices) {
    const { path: workdir, log } = killed.dirFor(index);
    // The order is that of names on one file system, and that in which they were made on another.
    if (index % 2 === 0) fs.writeFileSync(log, 'said');
    fs.mkdirSync(path.join(workdir, '.capture'), { recursive: true, mode: 0o700 });
    fs.writeFileSync(path.join(workdir, '.capture/attempt.json'), '{}');
    fs.writeFileSync(log, 'said');
  }
  fs.closeSync(killed.lockFd);
  const next = await open();
  const both = indices.flatMap((index) => [`${index}.unsaved-1`, `${index}.unsaved-1.log`]);
  expect(fs.readdirSync(killed.root).toSorted()).toEqual(both.toSorted());
  expect(said).toHaveLength(indices.length);
  await next.close();
});

it('removes and renames nothing of a directory that another user has put in its place', async () => {
  const victim = path.join(dir.path, 'home');
  fs.mkdirSync(victim);
  for (const name of ['1', '2', '1.log', '2.log', 'lock', 'thesis.tex'])
    fs.writeFileSync(path.join(victim, name), 'mine');
  const mine = fs.readdirSync(victim);
  const one = await open();
  const [first, second] = [begin(one, 1), begin(one, 2)];
  begin(one, 3);
  const moved = path.join(dir.path, 'moved');
  fs.renameSync(one.root, moved);
  fs.symlinkSync(victim, one.root);
  expect(() => one.dirFor(4).make()).toThrow('is not the directory any more that was made there');
  await first.remove();
  await second.keep();
  first.setAside();
  await one.close();
  expect(fs.readdirSync(victim)).toEqual(mine);
  expect(fs.readdirSync(moved).toSorted()).toEqual(['2.failed', '2.failed.log']);
});

it('is not made in a directory that another user has put in its place, and nothing of that is removed', async () => {
  const victim = path.join(dir.path, 'capture-work.home');
  fs.mkdirSync(victim, { mode: 0o700 });
  fs.writeFileSync(path.join(victim, 'thesis.tex'), 'mine');
  fs.symlinkSync(victim, path.join(dir.path, 'capture-work.link'));
  const one = await open();
  await one.close();
  expect(fs.readdirSync(victim)).toEqual(['thesis.tex']);
});

it('leaves a directory alone that somebody has renamed to look abandoned', async () => {
  const renamed = path.join(dir.path, 'capture-work.x');
  fs.mkdirSync(renamed, { mode: 0o700 });
  fs.writeFileSync(path.join(renamed, 'lock'), 'capture-work.y', { mode: 0o600 });
  fs.writeFileSync(path.join(renamed, 'precious'), 'mine');
  await (await open()).close();
  expect(fs.readdirSync(renamed).toSorted()).toEqual(['lock', 'precious']);
  fs.writeFileSync(path.join(renamed, 'lock'), 'capture-work.x');
  await (await open()).close();
  expect(fs.readdirSync(dir.path)).toEqual([]);
});
