import { describe, expect, it } from 'vitest';
import { withJobFile } from '../../../src/cli/job/job-line.ts';
import type { Outside } from '../../../src/cli/options/outside.ts';
import { noFiles, parse, type ReadRun } from '../given.ts';

const TABLE = 'seed,name\n7,"a b"\n8,c\n';
const outsideWith = (text: string): Outside => ({
  ...noFiles,
  readText: (file) => {
    const files: Readonly<Record<string, string>> = {
      '/w/job.yaml': text,
      '/w/runs.csv': TABLE,
      '/w/lines.txt': 'echo a\n\necho c\n',
    };
    return files[file] ?? noFiles.readText(file);
  },
});
const read = (text: string, words: readonly string[] = [], env: NodeJS.ProcessEnv = {}): ReadRun =>
  parse(['run', 'job.yaml', ...words], env, outsideWith(text), { cwd: '/w', readJob: withJobFile });
const messages = (found: ReadRun): readonly string[] =>
  found.kind === 'mistakes' ? found.mistakes.map(({ message }) => message) : [];
const FILES = 'to: /store\nresults: r.dat\n';

describe('one task of a job file', () => {
  it('is run with the options and the command of the file, by the index of this run', () => {
    const text = `${FILES}array: 0-9\njobs: 4\ncommand: [./sim, --seed, '{index}']\n`;
    expect(read(text, [], { SLURM_ARRAY_TASK_ID: '3' })).toMatchObject({
      kind: 'run',
      task: { command: '/w/sim', args: ['--seed', '3'], env: { CAPTURED_SUBMIT_DIR: '/w' } },
      settings: {
        to: { url: 'file:///store' },
        manifest: { results: ['r.dat'] },
        identity: { index: '3', taskName: 'sim', argv: ['/w/sim', '--seed', '3'] },
      },
      warnings: [],
    });
  });

  it('may be a text for the shell, whose placeholders are quoted', () => {
    const text = `${FILES}tasks: runs.csv\ncommand: sim --name {name} > out\n`;
    expect(read(text, ['--index', '0'])).toMatchObject({
      task: {
        args: ['-c', "sim --name 'a b' > out"],
        env: { CAPTURED_SUBMIT_DIR: '/w', seed: '7', name: 'a b' },
      },
      settings: { identity: { taskName: 'task' } },
    });
  });

  it('may be a line of a file of commands', () => {
    expect(read(`${FILES}tasks: lines.txt\n`, ['--index', '2'])).toMatchObject({
      task: { command: '/bin/sh', args: ['-c', 'echo c'] },
    });
  });

  it('needs no index if it is no array', () => {
    expect(read(`${FILES}task-name: melt\ncommand: [sim, 'a b']\n`)).toMatchObject({
      task: { command: 'sim', args: ['a b'] },
      settings: { identity: { index: undefined, taskName: 'melt' } },
    });
  });

  it('may be replaced by a task behind --, which stays as it is', () => {
    const words = ['--index=1', '--', 'other', '{index}'];
    expect(read(`${FILES}array: 0-9\ncommand: sim\n`, words)).toMatchObject({
      task: { command: 'other', args: ['{index}'], env: {} },
    });
  });

  it('shows the help that a run has', () => {
    expect(read('nonsense', ['--help'])).toMatchObject({ kind: 'text' });
  });
});

it('is asked for by its name behind a command: alone it may be meant for an array as well', () => {
  const found = parse(['job.yaml'], {}, outsideWith(''), { cwd: '/w', readJob: withJobFile });
  expect(messages(found)).toEqual(["what shall be done with 'job.yaml'?"]);
});

describe('a mistake in it', () => {
  it.each([
    [`${FILES}grace: 5\ncommand: sim\n`, [], ["'job.yaml', line 3: --grace '5': not a duration"]],
    [`${FILES}command: sim\n`, ['--grace', '5'], ["--grace '5': not a duration"]],
    [
      'retires: 5\ngrace: 5\nreclaim: maybe\n',
      ['--rescan', '5'],
      [
        "'job.yaml', line 1: 'retires' is not a key of a job file",
        "'job.yaml', line 3: --reclaim 'maybe': not one of auto, now, never",
        "--rescan '5': not a duration",
        "'job.yaml', line 2: --grace '5': not a duration",
      ],
    ],
    ['retires: 5\n', [], ["'job.yaml', line 1: 'retires' is not a key of a job file"]],
    [FILES, [], ['the job file has no command']],
    [`${FILES}command: sim {index}\n`, [], ["'job.yaml', line 3: the job has an index for each task"]],
    [`${FILES}array: 0-9\ncommand: sim\n`, [], ["'job.yaml', line 3: the job has an index for each task"]],
    [
      `${FILES}array: 0-9\ncommand: sim\n`,
      ['--index', '10'],
      ["'job.yaml', line 3: the job has no index 10"],
    ],
    [
      `${FILES}array: 9-0\ncommand: sim\n`,
      ['--index', '1'],
      ["'job.yaml', line 3: not a set of indices (0 to 2147483647, each range upwards)"],
    ],
    [`${FILES}tasks: no.csv\ncommand: sim\n`, ['--index', '1'], ["'job.yaml', line 3: cannot read 'no.csv'"]],
    [
      `${FILES}tasks: runs.csv\ncommand: sim {sed}\n`,
      ['--index', '1'],
      ["'job.yaml', line 4: {sed} in the command is no placeholder"],
    ],
    [`${FILES}tasks: lines.txt\ncommand: sim\n`, ['--index', '0'], ['each line of lines.txt is a command']],
  ] as const)('%j %j', (text, words, expected) => {
    expect(messages(read(text, words))).toEqual(expected.map((message) => expect.stringContaining(message)));
  });
});
