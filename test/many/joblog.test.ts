import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openJoblog } from '../../src/many/joblog.ts';
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
};

it('a job log that cannot be written any more ends no array: that is said once', () => {
  const said: string[] = [];
  const log = openJoblog(path.join(dir.path, 'log'), { warn: (text) => said.push(text) });
  log.close();
  log.write(ENTRY);
  log.write(ENTRY);
  expect(said).toEqual([expect.stringMatching(/^--joblog .*log lacks lines from now on: EBADF/)]);
});

it('a job log is as GNU parallel writes it, and grows behind what is there', () => {
  const file = path.join(dir.path, 'log');
  const task = { ...ENTRY, host: ':', startedAtMs: 1_795_361_974_011 };
  const write = (entry: Partial<typeof task>): void => {
    const log = openJoblog(file, { warn: () => undefined });
    log.write({ ...task, ...entry });
    log.close();
  };
  write({ index: 1, runtimeMs: 17, status: 3, command: 'sh -c "exit 3"' });
  write({ index: 2, runtimeMs: 86_400_500, signal: 9, outputBytes: 12, command: 'a\nb' });
  // As `parallel --joblog` of 20221122 wrote them, but for the second's figures.
  expect(fs.readFileSync(file, 'utf8')).toBe(
    'Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n' +
      '1\t:\t1795361974.011\t     0.017\t0\t0\t3\t0\tsh -c "exit 3"\n' +
      '2\t:\t1795361974.011\t 86400.500\t0\t12\t0\t9\ta\0b\n',
  );
});
