// What `capture template` prints: each text is read by what it is for. The Job of Kubernetes and the definition of AWS Batch
// are read in test/examples/containers.test.ts.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseRunLine } from '../../src/cli/job/run-line.ts';
import type { Outside } from '../../src/cli/options/outside.ts';
import { parseLine } from '../../src/many/line.ts';
import { parseQueueLine } from '../../src/many/queue/command.ts';
import { submitCommand } from '../../src/many/queue/submit.ts';
import { parseTemplateLine, TEMPLATES } from '../../src/many/template.ts';
import { parsed, noFiles } from '../cli/given.ts';
import { testDir } from '../support/work-dir.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const read = (name: string): string => fs.readFileSync(path.join(ROOT, 'examples', name), 'utf8');
const JOBS = ['jobs/array.yaml', 'jobs/queue.yaml'];

const outsideWith = (text: string): Outside => ({
  ...noFiles,
  readText: (file) =>
    file === '/w/job.yaml' ? text : file === '/w/runs.csv' ? 'seed\n1\n' : noFiles.readText(file),
});
const asArray = (text: string): unknown =>
  parseLine(['job.yaml'], { env: {}, cwd: '/w', outside: outsideWith(text) });

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
      asked: {
        taskName: 'simulate',
        retries: 2,
        settings: { to: { url: 's3://my-bucket/jobs/your-name/my-job' } },
      },
    });
    const run = parseRunLine(['run', 'job.yaml', '--index', '7'], {}, '/w', outsideWith(text));
    expect(run.parsed).toMatchObject({ kind: 'run', warnings: [], task: { args: ['--seed', '7'] } });
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
    parseQueueLine(submitCommand, ['job.yaml'], { env: {}, cwd: '/w', outside: outsideWith(job) }).kind;

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
  const texts = Object.fromEntries(Object.keys(TEMPLATES).map((name) => [name, `${name} of your-name\n`]));
  const line = (args: readonly string[], USER?: string): ReturnType<typeof parseTemplateLine> =>
    parseTemplateLine(args, texts, { USER });
  const printed = (...args: Parameters<typeof line>): string | undefined => {
    const found = line(...args);
    return 'text' in found ? found.text : undefined;
  };

  it('prints the template of this name, or the job file, with who asks for it', () => {
    expect(printed([])).toBe('array of your-name\n');
    expect(printed(['slurm'], 'ada')).toBe('slurm of ada\n');
    expect(printed(['array'], 'a b')).toBe('array of your-name\n');
    for (const name of Object.keys(TEMPLATES)) expect(printed(['--help'])).toContain(`  ${name} `);
  });

  it.each([
    [['slrum'], "capture template has no 'slrum'", 'capture template slurm'],
    [['array', 'x'], "capture template has no 'x'", 'capture template array'],
    [['--to', 'x'], "capture template has no 'x'", 'capture template array'],
    [['toString'], "capture template has no 'toString'", 'capture template array'],
  ])('%j is a mistake', (args, message, hint) => {
    const found = line(args);
    const mistakes = found.kind === 'mistakes' ? found.mistakes : [];
    expect(mistakes).toMatchObject([{ message: expect.stringContaining(message), hint }]);
  });
});
