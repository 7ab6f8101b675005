// Which local files are there after a run, and how those that were deleted come back.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { leftIn, scratchOf } from '../many/support.ts';
import { BIN, openPlace, type Place, type PlaceOptions } from './support.ts';

/** A file system that outlives a reboot (hier(7)), so it is no tmpfs. */
const DISK = '/var/tmp';
const MEMORY = '/dev/shm';

let place: Place | undefined;
afterEach(() => place?.close());

function placeOn(below: string, options: PlaceOptions = {}): Place {
  place = openPlace({ ...options, below });
  return place;
}

const DECLARED = ['-r', 'r.dat', '-k', 'k.chk'];
const sh = (end: string): string[] => ['sh', '-c', `echo data > r.dat; echo state > k.chk; ${end}`];
const filesIn = ({ work }: Place): readonly string[] =>
  fs.readdirSync(work).filter((name) => name !== '.capture');

describe('after a run on a disk', () => {
  it('that failed, all files are still there', async () => {
    const disk = placeOn(DISK);
    const run = disk.run(DECLARED, sh(`"${BIN}" flush; exit 3`));
    expect(await run.status, run.stderr()).toBe(3);
    expect(disk.text('r.dat.0')).toBe('data\n');
    expect(filesIn(disk)).toEqual(['k.chk', 'r.dat']);
    expect(run.stderr()).not.toContain('deleted here');
  });

  it('that Ctrl-C ended, all files are still there', async () => {
    const disk = placeOn(DISK);
    const run = disk.run(DECLARED, sh(`"${BIN}" flush; echo ready; exec sleep 60`));
    await run.says('ready');
    process.kill(run.pid, 'SIGINT');
    expect(await run.status, run.stderr()).toBe(130);
    expect(disk.text('r.dat.0')).toBe('data\n');
    expect(filesIn(disk)).toEqual(['k.chk', 'r.dat']);
  });

  it('that was preempted, what is stored is gone', async () => {
    const disk = placeOn(DISK);
    const run = disk.run(DECLARED, sh(`"${BIN}" flush; echo ready; exec sleep 60`));
    await run.says('ready');
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    expect(filesIn(disk)).toEqual([]);
  });

  it('that failed with --reclaim now, what is stored is gone', async () => {
    const disk = placeOn(DISK);
    const run = disk.run([...DECLARED, '--reclaim', 'now'], sh(`"${BIN}" flush; exit 3`));
    expect(await run.status, run.stderr()).toBe(3);
    expect(filesIn(disk)).toEqual([]);
  });

  it('of capture array that failed, what is stored is gone, as the directory is its own', async () => {
    const disk = placeOn(DISK);
    const options = ['--array=0', `--to=${disk.store}`, `--scratch=${scratchOf(disk)}`, '--notice=none'];
    const run = disk.capture([
      'array',
      ...options,
      ...DECLARED,
      '--',
      ...sh(`echo > other; "${BIN}" flush; exit 3`),
    ]);
    expect(await run.status, run.stderr()).toBe(1);
    expect(leftIn(disk).toSorted()).toEqual(['0.failed', '0.failed.log']);
    const [root = ''] = fs.readdirSync(scratchOf(disk));
    expect(fs.readdirSync(path.join(scratchOf(disk), root, '0.failed')).toSorted()).toEqual([
      '.capture',
      'other',
    ]);
  });
});

it('after a run in memory that failed, what is stored is gone', async () => {
  const memory = placeOn(MEMORY);
  const run = memory.run(DECLARED, sh(`"${BIN}" flush; exit 3`));
  expect(await run.status, run.stderr()).toBe(3);
  expect(filesIn(memory)).toEqual([]);
});

describe('the last line', () => {
  /** What the last line says to bring the files back, run by a shell as a user would paste it. */
  async function bringBack(at: Place, said: string): Promise<void> {
    const [, command = ''] = /\n {2}try: to bring back what was deleted: (.*)\n$/.exec(said) ?? [];
    expect(command).toMatch(/^capture restore --to file:/);
    const pasted = at.exec(['sh', '-c', `cd /; ${command}`], {
      PATH: `${path.dirname(BIN)}:${process.env['PATH'] ?? ''}`,
    });
    expect(await pasted.status, pasted.stderr()).toBe(0);
  }

  it('says what was deleted, as what it is stored, and the command that brings it back', async () => {
    const disk = placeOn(DISK);
    const options = ['-r', '*.dat', '-r', 'none-*', '-k', 'k.chk', '--index', '3', '--run', 'a-b'];
    const task = `echo 1 > 'with space.dat'; echo 2 > b.dat; echo state > k.chk`;
    const run = disk.run(options, ['sh', '-c', task]);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toMatch(/; 3 local files deleted here \((.*) is stored as \1\.3\)/);
    expect(filesIn(disk)).toEqual([]);
    await bringBack(disk, run.stderr());
    expect(filesIn(disk)).toEqual(['b.dat', 'k.chk', 'with space.dat']);
    expect(fs.readFileSync(disk.at('with space.dat'), 'utf8')).toBe('1\n');
  });

  it('names one pattern for all of a long list', async () => {
    const disk = placeOn(DISK);
    const options = ['a', 'b', 'c', 'd', 'e', 'f'].flatMap((name) => ['-r', name]);
    const run = disk.run(options, ['sh', '-c', 'for one in a b c d e f; do echo $one > $one; done']);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toMatch(/-r '\*\*' -i '\*\*'\n$/);
    await bringBack(disk, run.stderr());
    expect(filesIn(disk)).toEqual(['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('names a checkpoint if nothing else was deleted', async () => {
    const disk = placeOn(DISK);
    const run = disk.run(['-k', 'k.chk'], ['sh', '-c', 'echo state > k.chk']);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stderr()).toContain('; 1 local file deleted here (k.chk is stored as k.chk.sh.0.1-1)');
    await bringBack(disk, run.stderr());
    expect(filesIn(disk)).toEqual(['k.chk']);
  });

  it('names the object of the content that was deleted, not an older one of that checkpoint', async () => {
    const disk = placeOn(DISK);
    const task = `for i in 1 2 3; do echo $i > k.chk; "${BIN}" flush; done`;
    const run = disk.run(['-k', 'k.chk'], ['sh', '-c', task]);
    expect(await run.status, run.stderr()).toBe(0);
    const [, key = ''] = /1 local file deleted here \(k\.chk is stored as (\S+)\)/.exec(run.stderr()) ?? [];
    expect(disk.text(key)).toBe('3\n');
    await bringBack(disk, run.stderr());
    expect(fs.readFileSync(disk.at('k.chk'), 'utf8')).toBe('3\n');
  });
});
