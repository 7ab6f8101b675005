// What the doctor says of the work directory, the spool, the memory, and of a store that is a directory.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  examineMemory,
  examineSpool,
  examineStorePlace,
  examineWorkdir,
  kindOf,
  type Places,
} from '../../src/doctor/places.ts';
import { realOutside } from '../../src/cli/options/outside.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

const GiB = 2 ** 30;

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

const places = (changes: Partial<Places> = {}): Places => ({
  workdir: dir.path,
  spoolDir: dir.path,
  spoolLimitBytes: 1,
  workdirProblem: realOutside.workdirProblem,
  memory: () => undefined,
  ...changes,
});

describe('the work directory', () => {
  it('is named with its kind of file system and how full that is', async () => {
    const found = await examineWorkdir(places());
    expect(found.says).toMatch(/ is on .*; .* of space used .*, \d+ of \d+ files used/);
    expect(found.facts).toMatchObject({ path: dir.path, fileSystem: expect.any(String) as string });
  });

  it('in memory says so', async () => {
    const found = await examineWorkdir(places({ workdir: '/dev/shm' }));
    expect(found.says).toContain('tmpfs, which is memory');
  });

  it('that cannot be written is a failure, with its mend', async () => {
    const problem = { why: 'permission denied', hint: 'chmod u+rwx it' };
    const found = await examineWorkdir(places({ workdirProblem: () => problem }));
    expect(found).toMatchObject({ level: 'fail', mend: 'chmod u+rwx it' });
    expect(found.says).toContain('permission denied');
  });

  it('that is not there is a failure', async () => {
    const found = await examineWorkdir(places({ workdir: `${dir.path}/none` }));
    expect(found).toMatchObject({ level: 'fail', mend: expect.stringContaining('mkdir') as string });
  });
});

describe('the spool', () => {
  it('has room', async () => {
    expect(await examineSpool(places())).toMatchObject({ level: 'ok' });
  });

  it('without room for one copy is a warning', async () => {
    const found = await examineSpool(places({ spoolLimitBytes: Number.MAX_SAFE_INTEGER }));
    expect(found).toMatchObject({ level: 'warn', mend: expect.stringContaining('--spool') as string });
  });

  it('that is not there is a warning', async () => {
    const found = await examineSpool(places({ spoolDir: `${dir.path}/none` }));
    expect(found).toMatchObject({ level: 'warn' });
    expect(found.says).toContain('cannot write in');
  });
});

describe('the memory to add', () => {
  it("is capture's own, and that of a work directory and a spool in memory", async () => {
    const onDisk = examineMemory(places({ workdir: '/proc', spoolDir: '/proc' }));
    expect(onDisk.says).toMatch(/^add to the memory of the task: 256.0 MiB for capture; /);
    const inMemory = examineMemory(places({ workdir: '/dev/shm', spoolDir: '/dev/shm' }));
    expect(inMemory.says).toContain('all files of the work directory, which is memory');
    expect(inMemory.says).toContain('in the spool, which is memory');
  });

  it('is compared with what the job has left', async () => {
    const enough = examineMemory(places({ memory: () => ({ used: GiB, limit: 4 * GiB }) }));
    expect(enough).toMatchObject({ level: 'ok', facts: { limitBytes: 4 * GiB } });
    const little = examineMemory(places({ memory: () => ({ used: 3.9 * GiB, limit: 4 * GiB }) }));
    expect(little).toMatchObject({ level: 'warn', mend: expect.stringContaining('--mem') as string });
  });
});

it('a store in memory is a warning', () => {
  expect(examineStorePlace('/dev/shm/store', false)).toMatchObject({ level: 'warn' });
});

it('a store that only this machine sees is a warning in a job', () => {
  // No disk, but local, whatever the machine of this test has.
  expect(examineStorePlace('/proc', false)).toMatchObject({ level: 'ok' });
  expect(examineStorePlace('/proc', true)).toMatchObject({
    level: 'warn',
    mend: expect.stringContaining('all nodes share') as string,
  });
});

it('a directory that is not there yet is of the kind of the one above it', () => {
  expect(kindOf('/dev/shm/none/below')).toMatchObject({ type: 'tmpfs', isNetwork: false });
  expect(fs.existsSync('/dev/shm/none')).toBe(false);
});
