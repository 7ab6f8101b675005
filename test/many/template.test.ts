// What `capture template` prints: each text is read by what it is for. The Job of Kubernetes and the definition of AWS Batch
// are read in test/examples/containers.test.ts.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { withJobFile } from '../../src/cli/job/job-line.ts';
import type { Outside } from '../../src/cli/options/outside.ts';
import { type Parsed, readLine } from '../../src/cli/read-line.ts';
import { ARRAY_SPEC } from '../../src/many/line.ts';
import { submitCommand } from '../../src/many/queue/submit.ts';
import { templateCommand, TEMPLATES, textOf } from '../../src/many/template.ts';
import { noFiles, parse, parsed } from '../cli/given.ts';
import { testDir } from '../support/work-dir.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const read = (name: string): string => fs.readFileSync(path.join(ROOT, 'examples', name), 'utf8');
const JOBS = ['jobs/array.yaml', 'jobs/queue.yaml'];

const outsideWith = (text: string): Outside => ({
  ...noFiles,
  isFile: (file) => file === '/w/simulate',
  readText: (file) =>
    file === '/w/job.yaml' ? text : file === '/w/runs.csv' ? 'seed\n1\n' : noFiles.readText(file),
});
const asArray = (text: string): unknown =>
  readLine(ARRAY_SPEC, ['job.yaml'], { env: {}, cwd: '/w', outside: outsideWith(text) }, withJobFile);

/** Lines that begin as a key does, without a blank behind the #: the key, and all of it. */
const commentsIn = (text: string): readonly (readonly [string, string])[] =>
  [...text.matchAll(/^# ([a-z][a-z-]*): (.*(?:\n# {3}.*)*)$/gm)].map(([all, key = '']) => [key, all]);

/** It counts, in place of what is there of this key. */
const withComment = (text: string, key: string, all: string): string =>
  `${text.replace(all, '').replace(new RegExp(`^${key}:.*\n`, 'm'), '')}${all.replaceAll(/^# /gm, '')}\n`;

describe.each(JOBS)('examples/%s', (name) => {
  const text = read(name);

  it('is right for capture array, and one task of it for capture run', () => {
    expect(asArray(text)).toMatchObject({
      kind: 'go',
      warnings: [],
      request: {
        taskName: 'simulate',
        retries: 2,
        settings: { to: { url: 's3://my-bucket/jobs/your-name/my-job' } },
      },
    });
    const how = { cwd: '/w', readJob: withJobFile };
    expect(parse(['run', 'job.yaml', '--index', '7'], {}, outsideWith(text), how)).toMatchObject({
      kind: 'run',
      warnings: [],
      task: { args: ['--seed', '7'] },
    });
  });

  const comments = commentsIn(text);

  it.each(comments)('is right with its comment about %s, too', (key, all) => {
    expect(asArray(withComment(text, key, all))).toMatchObject({ kind: 'go', warnings: [] });
  });

  it('has such comments', () => expect(comments.length).toBeGreaterThan(3));
});

describe('examples/jobs/queue.yaml', () => {
  const text = read('jobs/queue.yaml');
  const asSubmission = (job: string): string =>
    readLine(submitCommand, ['job.yaml'], { env: {}, cwd: '/w', outside: outsideWith(job) }, withJobFile)
      .kind;

  it('is right for capture submit', () => expect(asSubmission(text)).toBe('go'));

  it.each(commentsIn(text))('is right for it with its comment about %s, too', (key, all) => {
    expect(asSubmission(withComment(text, key, all))).toBe('go');
  });
});

it('the batch script of Slurm has a command line that capture understands', () => {
  const dir = testDir();
  try {
    fs.mkdirSync(path.join(dir.path, 'bin'));
    const told = path.join(dir.path, 'told');
    const capture = `#!/bin/sh\nprintf '%s\\0' "$@" >${told}\n`;
    fs.writeFileSync(path.join(dir.path, 'bin/capture'), capture, { mode: 0o755 });
    const job = { SLURM_JOB_ID: '15', SLURM_ARRAY_JOB_ID: '12', SLURM_ARRAY_TASK_ID: '3' };
    const PATH = `${path.join(dir.path, 'bin')}:${process.env['PATH']}`;
    spawnSync('bash', ['-c', read('slurm/array.sbatch')], { env: { PATH, TMPDIR: dir.path, ...job } });
    const words = fs.readFileSync(told, 'utf8').split('\0').slice(0, -1);
    expect(parsed(words, job)).toMatchObject({ kind: 'run', settings: { identity: { index: '3' } } });
  } finally {
    dir.remove();
  }
});

describe('the command line of capture template', () => {
  const read = (args: readonly string[]): Parsed<string> =>
    readLine(templateCommand, args, { env: {}, cwd: '/', outside: noFiles });

  it('names a template, or means the job file', () => {
    for (const name of Object.keys(TEMPLATES)) expect(read([name])).toMatchObject({ request: name });
    expect(read([])).toMatchObject({ request: 'array' });
    const help = read(['--help']);
    for (const name of Object.keys(TEMPLATES)) expect('text' in help && help.text).toContain(`  ${name} `);
  });

  it.each([
    [['slrum'], "capture template has no 'slrum'", 'capture template slurm'],
    [['array', 'x'], "capture template takes no 'x'", 'capture template --help'],
    [['--to'], 'unknown option --to', 'capture template --help'],
    [
      ['--', 'slurm'],
      "capture template runs no task, and takes no 'slurm'",
      'leave out -- and what stands behind it',
    ],
    [['toString'], "capture template has no 'toString'", 'capture template array'],
  ])('%j is a mistake', (args, message, hint) => {
    expect(read(args)).toMatchObject({ mistakes: [{ message: expect.stringContaining(message), hint }] });
  });
});

it('a template is for who asks for it, if a namespace may be called so', () => {
  expect(textOf('jobs of your-name', { USER: 'ada' })).toBe('jobs of ada');
  expect(textOf('jobs of your-name', { USER: 'a b' })).toBe('jobs of your-name');
  expect(textOf('jobs of your-name', {})).toBe('jobs of your-name');
});
