// One notice for all tasks: what the runner hears of its sources, and the file that its tasks listen to.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Log } from '../../src/log/log.ts';
import { noticeOption, openSharedNotice, type SharedNotice } from '../../src/many/notice.ts';
import { until } from '../e2e/support.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
let shared: SharedNotice;
let changes: boolean[];
let messages: string[];
beforeEach(() => {
  dir = testDir();
  fs.mkdirSync(path.join(dir.path, 'scratch'));
  changes = [];
  messages = [];
  const say = (message: string): void => void messages.push(message);
  shared = openSharedNotice(
    {
      sources: [
        { kind: 'file', path: path.join(dir.path, 'one') },
        { kind: 'file', path: path.join(dir.path, 'two') },
      ],
      signals: [],
      tell: 'auto',
    },
    path.join(dir.path, 'scratch'),
    {
      log: { debug: say, info: say, warn: say, error: say } as unknown as Log,
      changed: (stands) => void changes.push(stands),
    },
  );
});
afterEach(() => {
  shared.close();
  dir.remove();
});

/** Whole at once. */
const put = (name: string, text: string): void =>
  fs.renameSync(dir.write(`${name}.new`, text), path.join(dir.path, name));
const told = (): string | undefined => (dir.has('scratch/notice') ? dir.read('scratch/notice') : undefined);
const tells = (text: string | undefined): Promise<void> =>
  until(() => told() === text, `the tasks are told ${text}`);

it('passes advice on, which ends nothing', async () => {
  put('one', 'advice');
  await tells('advice');
  expect(messages.at(-1)).toMatch(/one advises: .*: every task makes safe what is closed$/);
  put('one', '');
  await tells('');
  expect(changes).toEqual([true]);
  fs.unlinkSync(path.join(dir.path, 'one'));
  await tells(undefined);
  expect(changes).toEqual([true, false]);
});

it('stands on while its instant moves', async () => {
  put('one', '2036-01-01T00:00:00Z');
  await tells('2036-01-01T00:00:00.000Z');
  put('one', '2036-01-02T00:00:00Z');
  await tells('2036-01-02T00:00:00.000Z');
  expect(changes).toEqual([true]);
});

it('stands on while another source says so', async () => {
  put('one', '2036-01-01T00:00:00Z');
  await tells('2036-01-01T00:00:00.000Z');
  put('two', '2036-01-02T00:00:00Z');
  await tells('2036-01-02T00:00:00.000Z');
  fs.unlinkSync(path.join(dir.path, 'two'));
  await tells('2036-01-01T00:00:00.000Z');
  fs.unlinkSync(path.join(dir.path, 'one'));
  await tells(undefined);
  expect(changes).toEqual([true, false]);
});

it('tells a signal that is a notice, which is never taken back', async () => {
  shared.signalled('SIGUSR1');
  await tells('');
  expect(changes).toEqual([true]);
  expect(noticeOption(path.join(dir.path, 'scratch'))).toBe(`--notice=file:${dir.path}/scratch/notice`);
});
