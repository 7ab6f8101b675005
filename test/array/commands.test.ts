// What the commands on an array promise of their command lines: what is wrong is said at once, and failures end with the
// status that the help names.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ARRAY_COMMANDS } from '../../src/array/commands.ts';
import { findCommand, type Parsed, readLine } from '../../src/cli/read-line.ts';
import { noFiles } from '../cli/given.ts';
import { BIN } from '../e2e/support.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-commands-'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const capture = (args: readonly string[], env: NodeJS.ProcessEnv = {}): ReturnType<typeof spawnSync> =>
  spawnSync(BIN, args, { cwd: dir, encoding: 'utf8', env: { PATH: process.env['PATH'], ...env } });

const parse = (name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Parsed<unknown> =>
  readLine(findCommand(ARRAY_COMMANDS, [name]).command, args, { env, cwd: '/', outside: noFiles });

describe('the command line of a command on an array', () => {
  it.each([
    [{ CAPTURE_TO: 's3://lab/run7' }, 's3://lab/run7'],
    [{ CAPTURE_TO: '' }, 'file:///capture-store'],
    [{}, 'file:///capture-store'],
  ])('takes its store from the variables %j as a run does, if it names none', (env, url) => {
    expect(parse('status', [], env)).toMatchObject({ request: { address: { settings: { url } } } });
  });

  it('prints data with --json, and messages as lines for people', () => {
    expect(parse('status', ['s3://lab/run7', '--json'])).toMatchObject({ log: { format: 'text' } });
  });

  it('refuses more indices than an array can have', () => {
    expect(parse('status', ['s3://lab/run7', '--array', '0-2147483647'])).toMatchObject({
      mistakes: [{ message: "--array '0-2147483647': too many for one array: at most 10000000" }],
    });
  });

  it('says how a name is written that begins as an option does', () => {
    expect(parse('cat', ['s3://lab/run7', '0', '-dash'])).toMatchObject({
      mistakes: [
        {
          message: 'unknown option -dash',
          hint: 'capture cat --help; for a name that begins so: ./-dash',
        },
        { message: 'no path is named', hint: 'capture cat s3://lab/run7 17 out/r.dat' },
      ],
    });
  });

  it('takes all behind -- for names of files', () => {
    expect(parse('cat', ['s3://lab/run7', '0', '--', '-dash'])).toMatchObject({
      request: { request: { path: '-dash' } },
    });
    expect(parse('cat', ['s3://lab/run7', '0', '--', '-dash', 'x'])).toMatchObject({
      mistakes: [{ message: "capture cat takes no 'x'" }],
    });
  });

  it.each(ARRAY_COMMANDS.map(({ name }) => name))('takes its store behind --: %s', (name) => {
    expect(JSON.stringify(parse(name, ['--', '-dash']))).not.toMatch(/runs no task/);
  });

  it('refuses a store that is empty: a script has not set its variable', () => {
    for (const name of ['doctor', 'status'])
      expect(parse(name, [''], { CAPTURE_TO: '/lab' })).toMatchObject({
        mistakes: [{ message: `capture ${name}: the store is empty` }],
      });
  });

  it('names all that is missing in one line, with an example', () => {
    const hint = 'capture cat s3://lab/run7 17 out/r.dat';
    expect(parse('cat', ['s3://lab/run7'])).toMatchObject({
      mistakes: [{ message: 'no index and no path are named', hint }],
    });
  });

  it('says how the same store is gathered into a directory', () => {
    const missing = 'no directory is named to gather into';
    expect(parse('gather', ['lab'])).toMatchObject({
      mistakes: [{ message: missing, hint: 'capture gather file:///lab ./results' }],
    });
    expect(parse('gather', [], { CAPTURE_TO: 's3://lab/run7' })).toMatchObject({
      mistakes: [{ message: missing, hint: 'capture gather s3://lab/run7 ./results' }],
    });
    expect(parse('gather', ['s3:/lab'])).toMatchObject({ mistakes: [{}] });
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
