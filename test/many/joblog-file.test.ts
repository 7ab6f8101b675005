import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openJoblog } from '../../src/many/joblog-file.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

const ENTRY = {
  index: 3,
  host: 'node1',
  startedAtMs: 0,
  runtimeMs: 1,
  outputBytes: 0,
  status: 0,
  signal: 0,
  command: 'true',
} as const;

it('a job log that cannot be written any more ends no array: that is said once', () => {
  const said: string[] = [];
  const log = openJoblog(path.join(dir.path, 'log'), { warn: (text) => said.push(text) });
  log.close();
  log.write(ENTRY);
  log.write(ENTRY);
  expect(said).toEqual([expect.stringMatching(/^--joblog .*log lacks lines from now on: EBADF/)]);
});
