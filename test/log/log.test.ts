import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { LogSettings } from '../../src/model/format/settings.ts';
import { openLog, type Log } from '../../src/log/log.ts';

let dir = '';
let file = '';
let round = 0;
beforeAll(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-log-'));
});
beforeEach(() => {
  round += 1;
  file = path.join(dir, `${round}.log`);
});
afterAll(() => fs.rmSync(dir, { recursive: true }));

async function written(
  settings: Partial<LogSettings>,
  speak: (log: Log) => void,
): Promise<readonly string[]> {
  const log = openLog({ level: 'info', format: 'text', file, ...settings });
  speak(log);
  await log.close();
  return fs.readFileSync(file, 'utf8').split('\n').slice(0, -1);
}

describe('a log file', () => {
  it('has one line for each message, with the time, and the hint below', async () => {
    const lines = await written({}, (log) => {
      log.info('stored r.dat');
      log.warn('the store is slow', { hint: 'wait' });
    });
    expect(lines).toEqual([
      expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z capture: stored r\.dat$/),
      expect.stringMatching(/Z capture: warning: the store is slow$/),
      '  try: wait',
    ]);
  });

  it('has whole lines although several processes append to it', async () => {
    const first = openLog({ level: 'info', format: 'text', file });
    const lines = await written({}, (second) => {
      first.info('one');
      second.info('two');
      first.info('three');
    });
    await first.close();
    expect(lines.map((line) => line.split('capture: ')[1])).toEqual(['one', 'two', 'three']);
  });

  it('keeps a message on its line, whatever the names in it', async () => {
    expect(await written({}, (log) => log.info('a\ncapture: forged'))).toHaveLength(1);
  });

  it('is JSON, with every field, when that is asked for', async () => {
    const [line = ''] = await written({ format: 'json' }, (log) =>
      log.warn('cannot push', { hint: 'wait', path: 'r.dat', err: new Error('http 503') }),
    );
    expect(JSON.parse(line)).toMatchObject({
      level: 40,
      msg: 'cannot push',
      hint: 'wait',
      path: 'r.dat',
      err: { message: 'http 503' },
    });
  });
});

it.each([
  ['debug', ['d', 'i', 'w']],
  ['info', ['i', 'w']],
  ['warn', ['w']],
  ['silent', []],
] as const)('level %s lets through %j', async (level, expected) => {
  const lines = await written({ level, format: 'json' }, (log) => {
    log.debug('d');
    log.info('i');
    log.warn('w');
  });
  expect(lines.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual(expected);
});

it('refuses a log file that cannot be opened, and says what to do', () => {
  expect(() => openLog({ level: 'info', format: 'text', file: path.join(dir, 'no', 'x.log') })).toThrow(
    expect.objectContaining({ status: 64, hint: expect.stringContaining('--log-file') }),
  );
});

it('refuses a FIFO that nobody reads, and does not wait for a reader', () => {
  execFileSync('mkfifo', [file]);
  expect(() => openLog({ level: 'info', format: 'text', file })).toThrow(
    expect.objectContaining({ status: 64, message: expect.stringContaining('ENXIO') }),
  );
});
