// A store that is a directory is after the exam as it was: `removeNewDirs`. All else: test/array/doctor.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { removeNewDirs } from '../../src/doctor/doctor.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

describe('a store that was not there', () => {
  it('is not there afterwards, nor the directories that led to it', () => {
    const before = removeNewDirs(`${dir.path}/a/b/store`);
    fs.mkdirSync(`${dir.path}/a/b/store/.capture-store/tmp`, { recursive: true });
    before.close();
    expect(dir.names('.')).toEqual([]);
  });

  it('stays when somebody has begun to use it', () => {
    const before = removeNewDirs(`${dir.path}/a/store`);
    dir.write('a/store/.capture/t/0/0001-000000.started.json', '{}');
    before.close();
    expect(dir.has('a/store/.capture/t/0/0001-000000.started.json')).toBe(true);
  });
});

it('a store that was there stays, empty or not', () => {
  fs.mkdirSync(`${dir.path}/store`);
  removeNewDirs(`${dir.path}/store`).close();
  expect(dir.names('.')).toEqual(['store']);
});
