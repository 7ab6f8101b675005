import { describe, expect, it } from 'vitest';
import { type JobLine, withJobFile } from '../../../src/cli/job/job-line.ts';
import { optionsOf } from '../../../src/cli/options.ts';
import { noFiles } from '../given.ts';

/** In /w there is only this job file. */
function read(text: string, words: readonly string[]): JobLine {
  const readText = (file: string): string => (file === '/w/job.yaml' ? text : noFiles.readText(file));
  const line = withJobFile(words, KNOWN, { cwd: '/w', outside: { ...noFiles, readText } });
  if (line === undefined) throw new Error('no job file is named');
  return line;
}

const KNOWN = { title: 'capture', options: optionsOf('run'), idle: [] };

describe('a command line with a job file', () => {
  it('is one with the options of the file, before those of the line', () => {
    const text = "results: ['*.dat', r.csv]\nskip-done: true\nkeep: false\ngrace: 90s\ncommand: ./task\n";
    const { words, command, mistakes } = read(text, ['job.yaml', '--index', '3']);
    expect(words).toEqual([
      '--results=*.dat',
      '--results=r.csv',
      '--skip-done',
      '--grace=90s',
      '--index',
      '3',
    ]);
    expect(command).toEqual({ kind: 'shell', text: './task', place: "'job.yaml', line 5" });
    expect(mistakes).toEqual([]);
  });

  it('has of each option only what stands on the line, list for list', () => {
    const text = 'results: [a, b]\ngrace: 90s\nreclaim: now\n';
    const { words } = read(text, ['job.yaml', '-r', 'c', '--grace=5s', '--keep']);
    // --keep answers the same question as --reclaim.
    expect(words).toEqual(['-r', 'c', '--grace=5s', '--keep']);
  });

  it('leaves out what is for other commands, and finds the task of an index in it', () => {
    const { words, taskOf } = read('array: 0-9\njobs: 4\nresults: r\ncommand: [sim, "{index}"]\n', [
      'job.yaml',
    ]);
    expect(words).toEqual(['--results=r']);
    expect(taskOf('3')).toEqual({ argv: ['sim', '3'], env: {} });
    expect(taskOf('10')).toMatchObject([{ message: "'job.yaml', line 1: the job has no index 10" }]);
  });

  it('is none without one', () => {
    for (const words of [[], ['-r', 'job.yaml'], ['--to=x.yaml'], ['file.txt']])
      expect(withJobFile(words, KNOWN, { cwd: '/w', outside: noFiles })).toBeUndefined();
  });
});

describe('a mistake', () => {
  it('with an option of the file has its line, and a hint for the file', () => {
    const { placed } = read('# first\ngrace: 90\n', ['job.yaml', '--rescan', '5']);
    expect(placed({ message: "--grace '90': not a duration", hint: '--grace 90s' })).toEqual({
      message: "'job.yaml', line 2: --grace '90': not a duration",
      hint: 'grace: 90s',
    });
    const ofLine = { message: "--rescan '5': not a duration", hint: '--rescan 5s' };
    expect(placed(ofLine)).toEqual(ofLine);
  });

  it.each([
    ['retires: 3', "'job.yaml', line 1: 'retires' is not a key of a job file"],
    ['a: b: c', "'job.yaml', line 1: a key inside of a value"],
  ])('of the file itself is told, and the words are those of the line: %s', (text, message) => {
    const { words, mistakes } = read(text, ['job.yaml', '--keep']);
    expect(words).toEqual(['--keep']);
    expect(mistakes.map((one) => one.message)).toEqual([message]);
  });

  it('is a file that is not there', () => {
    const { mistakes } = read('', ['other.yml']);
    expect(mistakes[0]?.message).toMatch(/^job file 'other.yml': cannot read it: ENOENT/);
    expect(mistakes[0]?.hint).toContain('capture template');
  });
});
