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
