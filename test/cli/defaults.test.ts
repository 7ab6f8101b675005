import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { defaultsFiles } from '../../src/cli/options/defaults.ts';
import { readDefaults } from '../../src/cli/job/read-defaults.ts';
import { realOutside } from '../../src/cli/options/outside.ts';
import { readLine } from '../../src/cli/read-line.ts';
import { RUN_SPEC } from '../../src/cli/run-spec.ts';
import { configCommand } from '../../src/many/config.ts';

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-defaults-'));
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

/** What `capture` makes of a line, with these files of defaults, the lowest first. */
function read(line: readonly string[], texts: readonly string[], variables: NodeJS.ProcessEnv = {}) {
  const files = texts.map((text, at) => ({ path: path.join(dir, `${at}.yaml`), isThere: true }));
  files.forEach((file, at) => fs.writeFileSync(file.path, texts[at] ?? ''));
  const here = { env: variables, cwd: dir, outside: realOutside };
  const caller = { ...here, ...readDefaults(files, here) };
  return { run: readLine(RUN_SPEC, line, caller), config: readLine(configCommand, [], caller) };
}

function settingsOf(...given: Parameters<typeof read>) {
  const { run } = read(...given);
  if (run.kind !== 'go') throw new Error(JSON.stringify(run));
  return run.request.settings;
}

function mistakesOf(...given: Parameters<typeof read>): readonly string[] {
  const { run } = read(...given);
  return run.kind === 'mistakes' ? run.mistakes.map(({ message, hint }) => `${message} | ${hint}`) : [];
}

describe('a default', () => {
  const RUN = ['--to', '/elsewhere', '-r', 'r.dat', '--', 'true'];

  it('counts if neither the line nor a variable says anything', () => {
    expect(settingsOf(RUN, ['reclaim: never']).reclaim).toBe('never');
    expect(settingsOf(['--reclaim', 'now', ...RUN], ['reclaim: never']).reclaim).toBe('now');
    expect(settingsOf(RUN, ['reclaim: never'], { CAPTURE_RECLAIM: 'now' }).reclaim).toBe('now');
    expect(settingsOf(RUN, ['reclaim: never'], { CAPTURE_RECLAIM: '' }).reclaim).toBe('never');
  });

  it('gives way to one of a later file', () => {
    expect(settingsOf(RUN, ['reclaim: never\nrescan: 5s', 'reclaim: now'])).toMatchObject({
      reclaim: 'now',
      rescanMs: 5000,
    });
  });

  it('of a list is replaced as a whole', () => {
    const texts = ['checkpoints: [a.chk, b.chk]'];
    expect(settingsOf(RUN, texts).manifest.checkpoints).toHaveLength(2);
    expect(settingsOf(['-k', 'c.chk', ...RUN], texts).manifest.checkpoints).toHaveLength(1);
  });

  it('of a flag is on or off', () => {
    expect(settingsOf(RUN, ['skip-done: true']).skipDone).toBe(true);
    expect(settingsOf(RUN, ['skip-done: true', 'skip-done: false']).skipDone).toBe(false);
    expect(settingsOf(RUN, ['skip-done: true'], { CAPTURE_SKIP_DONE: '0' }).skipDone).toBe(false);
  });

  it('that is wrong is refused with its place', () => {
    expect(mistakesOf(RUN, ['to: s3://lab\nrescan: 5'])).toEqual([
      `'${dir}/0.yaml', line 2: rescan '5': not a duration: it needs a unit, ms, s, m, h or d | rescan: 5s`,
    ]);
    expect(mistakesOf(RUN, ['rescn: 5s'])).toEqual([
      `'${dir}/0.yaml', line 1: 'rescn' is not a key of a job file | rescan`,
    ]);
    expect(mistakesOf(RUN, ['command: ./task'])).toEqual([
      `'${dir}/0.yaml', line 1: a file of defaults names no command | put it into a job file: capture template > job.yaml`,
    ]);
  });

  it('that is wrong does not stand in the way of help', () => {
    expect(read(['--help'], ['rescn: 5s']).run.kind).toBe('text');
  });
});

describe('capture config', () => {
  it('shows each value and where it comes from', () => {
    const { config } = read([], ['to: s3://lab', 'results: [a.dat, b.dat]\njobs: 4'], {
      CAPTURE_RECLAIM: 'now',
    });
    if (config.kind !== 'go') throw new Error(JSON.stringify(config));
    const rows = config.request.split('\n').map((line) => line.split(/ {2,}/));
    expect(rows).toContainEqual([`${dir}/0.yaml: read`]);
    expect(rows).toContainEqual(['to', 's3://lab', `'${dir}/0.yaml', line 1`]);
    expect(rows).toContainEqual(['results', 'a.dat, b.dat', `'${dir}/1.yaml', line 1`]);
    expect(rows).toContainEqual(['jobs', '4', `'${dir}/1.yaml', line 2`]);
    expect(rows).toContainEqual(['reclaim', 'now', 'CAPTURE_RECLAIM']);
    expect(rows).toContainEqual(['rescan', '60s', 'default']);
  });
});

it('capture config refuses a wrong value, with its place', () => {
  const { config } = read([], ['compression: auto']);
  const message = expect.stringContaining(`'${dir}/0.yaml', line 1: compression 'auto'`) as string;
  expect(config).toMatchObject({ kind: 'mistakes', mistakes: [{ message }] });
});

it('the example of docs/options.md is right', () => {
  const example = /```yaml\n(.*?)```/s.exec(fs.readFileSync('docs/options.md', 'utf8'))?.[1] ?? '';
  expect(example).toContain('to: ');
  expect(read([], [example]).config.kind).toBe('go');
});

describe('the files', () => {
  const pathsOf = (env: NodeJS.ProcessEnv): readonly string[] => defaultsFiles(env).map((file) => file.path);

  it('are those of the site, of the user, and the one that is named', () => {
    expect(pathsOf({ HOME: '/home/ada' })).toEqual(['/etc/capture.yaml', '/home/ada/.config/capture.yaml']);
    expect(pathsOf({ HOME: '/home/ada', XDG_CONFIG_HOME: '/conf', CAPTURE_CONFIG: 'x.yaml' })).toEqual([
      '/etc/capture.yaml',
      '/conf/capture.yaml',
      'x.yaml',
    ]);
    expect(pathsOf({ HOME: '', XDG_CONFIG_HOME: 'relative' })).toEqual(['/etc/capture.yaml']);
  });

  it('are none for a task of a runner, which has read its own', () => {
    expect(pathsOf({ HOME: '/home/ada', CAPTURE_CONFIG: 'x.yaml', CAPTURED_RUNNER: '7' })).toEqual([]);
  });

  it('that cannot be read are refused', () => {
    const here = { env: {}, cwd: dir, outside: realOutside };
    const { defaults } = readDefaults([{ path: 'none.yaml', isThere: true }], here);
    expect(defaults.mistakes).toMatchObject([{ message: expect.stringContaining('none.yaml') as string }]);
  });
});
