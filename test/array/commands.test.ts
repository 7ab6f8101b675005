// What all commands on an array promise: bin/capture knows them, help and examples are right, mistakes and failures end
// with the status that the help names.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { COMMANDS } from '../../src/array/commands.ts';
import { parseLine, type ParsedLine } from '../../src/array/line.ts';
import { ARRAY_COMMAND_NAMES, ARRAY_COMMANDS, type ArrayCommandName } from '../../src/cli/array-commands.ts';
import { BIN } from '../e2e/support.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-commands-'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const capture = (args: readonly string[], env: NodeJS.ProcessEnv = {}): ReturnType<typeof spawnSync> =>
  spawnSync(BIN, args, { cwd: dir, encoding: 'utf8', env: { PATH: process.env['PATH'], ...env } });

const parse = (name: ArrayCommandName, args: readonly string[], env: NodeJS.ProcessEnv = {}): ParsedLine =>
  parseLine(name, COMMANDS[name], args, { env, cwd: '/' });

const OPERANDS: Readonly<Record<string, string>> = {
  '<url>': 's3://lab/run7',
  '[url]': 's3://lab/run7',
  '<index>': '3',
  '[index]': '3',
  '<path>': 'r.dat',
  '<directory>': 'results',
};

describe.each(ARRAY_COMMAND_NAMES)('capture %s', (name) => {
  it('is found by bin/capture, and has a help of lines of at most 100 characters', () => {
    const { stdout, stderr, status } = capture([name, '--help']);
    const text = String(stdout);
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(text).toMatch(new RegExp(`^Usage: capture ${name} `));
    for (const word of ['--path-style', 'Exit status:', ' 64 ', 'Examples:']) expect(text).toContain(word);
    // Whoever looks at no array need not say which.
    expect(text.includes('--task-name')).toBe(COMMANDS[name].shared === undefined);
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
  });

  it('has examples that are right', () => {
    const { examples } = COMMANDS[name].help;
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      const words = example.split(' ').map((word) => word.replaceAll(/['"]/g, ''));
      expect(words.slice(0, 2)).toEqual(['capture', name]);
      expect(parse(name, words.slice(2)), example).toMatchObject({ kind: 'go' });
    }
  });

  it('stands in the help of capture with the operands that its own help names', () => {
    const [, operands = ''] =
      /^Usage: capture \w+ (.*?)(?: --\S.*)? \[options\]$/m.exec(String(capture([name, '--help']).stdout)) ??
      [];
    expect(operands).toMatch(/url/);
    const lines = String(capture(['--help']).stdout).split('\n');
    expect(lines.filter((line) => line.startsWith(`  capture ${name} ${operands}  `))).toHaveLength(1);
  });

  it('takes the operands of its help, and no more', () => {
    const operands = ARRAY_COMMANDS[name].operands.split(' ').map((word) => OPERANDS[word] ?? word);
    const options = COMMANDS[name].help.required === undefined ? [] : ['--array', '0'];
    expect(parse(name, [...operands, ...options])).toMatchObject({ kind: 'go' });
    expect(parse(name, [...operands, 'more', ...options])).toMatchObject({ kind: 'mistakes' });
  });
});

it('bin/capture sends no other word there than the commands of the table', () => {
  const shim = fs.readFileSync(BIN, 'utf8');
  const [, words = ''] = /^ {2}([a-z| ]+)\) main=\S*array\.cjs/m.exec(shim) ?? [];
  expect(words.split(' | ')).toEqual(ARRAY_COMMAND_NAMES);
});

describe('the command line of a command on an array', () => {
  it('takes its store from CAPTURE_TO, if it names none', () => {
    expect(parse('status', [], { CAPTURE_TO: 's3://lab/run7' })).toMatchObject({ kind: 'go' });
    expect(parse('status', [])).toMatchObject({
      kind: 'mistakes',
      mistakes: [{ message: 'no store is named' }],
    });
  });

  it('says how a name is written that begins as an option does', () => {
    expect(parse('cat', ['s3://lab/run7', '0', '-dash'])).toMatchObject({
      mistakes: [
        {
          message: 'unknown option -dash',
          hint: 'capture cat --help; for a name that begins so: ./-dash',
        },
        { message: 'no file is named' },
      ],
    });
  });

  it('finds all mistakes at once', () => {
    expect(parse('status', ['s3:/lab', '--arry', '5', '--task-name', 'a/b'])).toMatchObject({
      mistakes: [
        { message: 'unknown option --arry', hint: '--array' },
        { message: expect.stringContaining("--task-name 'a/b'") },
        { message: expect.stringContaining('s3:/lab') },
      ],
    });
  });

  it('tells a mistake with a hint, and exits 64', () => {
    const { status, stderr } = capture(['status', dir, '--array', '3-1']);
    expect(status).toBe(64);
    expect(stderr).toMatch(
      /--array '3-1': not a set of indices \(0 to \d+, each range upwards\)\n +try: --array 0-99/,
    );
  });

  it('exits 66 where nothing is stored, and 69 where no store answers', () => {
    expect(capture(['status', path.join(dir, 'none')]).status).toBe(66);
    const env = {
      AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9',
      AWS_ACCESS_KEY_ID: 'a',
      AWS_SECRET_ACCESS_KEY: 'b',
      AWS_REGION: 'us-east-1',
    };
    // A wrong certificate file is refused at once: an outage is waited for.
    const { status, stderr } = capture(['status', 's3://lab/run7'], {
      ...env,
      AWS_CA_BUNDLE: '/no/such/file',
    });
    expect({ status, stderr }).toMatchObject({ status: 69, stderr: expect.stringContaining('certificates') });
  });
});
