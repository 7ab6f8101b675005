// The files that a command line names: read whole, without waiting for one that nobody writes.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readNamedFile, readNamedText } from '../../src/native/named-file.ts';
import { BIN } from '../e2e/support.ts';

let dir: string;
beforeAll(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-named-'));
  execFileSync(
    'sh',
    [
      '-c',
      'mkfifo p; ln -s p link; ln -s p job.yaml; mkdir d; truncate -s 64M most; truncate -s 67108865 more',
    ],
    {
      cwd: dir,
    },
  );
});
afterAll(() => fs.rmSync(dir, { recursive: true }));

describe('a file that the user names', () => {
  it('is read whole, through links and from /proc, up to 64 MiB', () => {
    expect(readNamedFile(path.join(dir, 'most'))).toHaveLength(64 * 2 ** 20);
    expect(readNamedText('/proc/self/cgroup')).toBe(fs.readFileSync('/proc/self/cgroup', 'utf8'));
    expect(readNamedText('/dev/null')).toBe('');
  });

  it.each([
    ['p', 'it is no regular file'],
    ['link', 'it is no regular file'],
    ['/dev/zero', 'it is no regular file'],
    ['more', 'it has more than 64.0 MiB'],
    ['d', 'EISDIR'],
    ['none', 'ENOENT'],
  ])('is refused: %s: %s', (name, why) => {
    expect(() => readNamedFile(path.resolve(dir, name))).toThrow(why);
  });

  it('is refused above another limit', () => {
    expect(() => readNamedFile(path.join(dir, 'most'), 2 ** 20)).toThrow('it has more than 1.0 MiB');
  });

  it('is no text with a NUL byte', () => {
    expect(() => readNamedText(path.join(dir, 'most'))).toThrow('it has a NUL byte');
  });
});

describe('a command line', () => {
  const WITHIN_MS = 20_000;

  function capture(script: string, env: NodeJS.ProcessEnv = {}) {
    const { stdout, stderr, status } = spawnSync('bash', ['-c', script, BIN], {
      cwd: dir,
      env: { ...process.env, ...env },
      encoding: 'utf8',
      timeout: WITHIN_MS,
      killSignal: 'SIGKILL',
    });
    return { stdout, stderr, status };
  }

  it.each([
    ['control characters', 'head -c 64M /dev/zero | tr "\\0" "\\1"', 'it has more than 1.0 MiB'],
    ['one long line', 'yes x | tr -d "\\n" | head -c 1M', 'a pattern of 1,048,576 characters'],
    ['wrong lines', 'yes / | head -c 1M', 'line 20:'],
  ])('says in few words that a file is no list of patterns: %s', (_, make, why) => {
    const { stderr, status } = capture(`${make} > list; "$0" --to t --index 0 -r @list -- true`);
    expect(status, stderr.slice(0, 1000)).toBe(64);
    expect(stderr).toContain(why);
    expect(stderr.length).toBeLessThan(10_000);
  });

  it('says in few words that a file of defaults is too large', () => {
    const script = `head -c 64M /dev/zero | tr '\\0' '\\1' > c.yaml; CAPTURE_CONFIG=$PWD/c.yaml "$0" -r x -- true`;
    const { stderr, status } = capture(script);
    expect(status, stderr.slice(0, 1000)).toBe(64);
    expect(stderr).toContain('cannot read the defaults in');
    expect(stderr).toContain('it has more than 1.0 MiB');
    expect(stderr.length).toBeLessThan(10_000);
  });

  it.each([
    ['"$0" --to s -- true', { CAPTURE_CONFIG: '/dev/zero' }],
    ['"$0" --to s -- true', { CAPTURE_CONFIG: 'p' }],
    ['"$0" --to s -r @p -- true', {}],
    ['"$0" --to s --index-map p -- true', { SLURM_ARRAY_TASK_ID: '0' }],
    ['"$0" array --to s --tasks p', {}],
    ['"$0" run job.yaml', {}],
    ['"$0" array job.yaml', {}],
    ['"$0" submit --queue redis://127.0.0.1:1/q --to s --tasks p', {}],
    ['"$0" worker --queue "rediss://127.0.0.1:1/q?ca=$PWD/p"', {}],
  ])('is refused that names a file without an end: %s %j', (script, env) => {
    const { stderr, status } = capture(script, env);
    expect(stderr).toMatch(/no regular file.*\n  try: /);
    expect(status).toBe(64);
  });

  it('may name what is open already: the output of a command, or stdin', () => {
    const array = '"$0" array --dry-run --to s -r r.dat --tasks';
    const slowly = '{ echo true; sleep 0.2; echo false; }';
    expect(capture(`${array} <(${slowly})`).stdout).toContain('1: /bin/sh -c false\n');
    expect(capture(`${slowly} | ${array} /dev/stdin`).stdout).toContain('1: /bin/sh -c false\n');
    expect(capture(`${array} /dev/stdin <<<true`).stdout).toContain('0: /bin/sh -c true\n');
  });
});
