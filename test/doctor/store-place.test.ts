// A store that is a directory: who sees it, and that it is as it was.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { examineStorePlace, keepAsItWas } from '../../src/doctor/store-place.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

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

describe('a store that was not there', () => {
  it('is not there afterwards, nor the directories that led to it', () => {
    const before = keepAsItWas(`${dir.path}/a/b/store`);
    fs.mkdirSync(`${dir.path}/a/b/store/.capture-store/tmp`, { recursive: true });
    before.close();
    expect(dir.names('.')).toEqual([]);
  });

  it('stays when somebody has begun to use it', () => {
    const before = keepAsItWas(`${dir.path}/a/store`);
    dir.write('a/store/.capture/t/0/0001-000000.started.json', '{}');
    before.close();
    expect(dir.has('a/store/.capture/t/0/0001-000000.started.json')).toBe(true);
  });
});

it('a store that was there stays, empty or not', () => {
  fs.mkdirSync(`${dir.path}/store`);
  keepAsItWas(`${dir.path}/store`).close();
  expect(dir.names('.')).toEqual(['store']);
});
