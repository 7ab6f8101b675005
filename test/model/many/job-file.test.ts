import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import type { Mistake } from '../../../src/model/errors.ts';
import { type JobFile, type JobKey, parseJobFile } from '../../../src/model/many/job-file.ts';

const KEYS: readonly JobKey[] = [
  { name: 'name', kind: 'value' },
  { name: 'array', kind: 'value' },
  { name: 'results', kind: 'list' },
  { name: 'retries', kind: 'value' },
  { name: 'skip-done', kind: 'flag' },
  { name: 'no-logs', kind: 'flag' },
];
const parsed = (text: string): JobFile => parseJobFile(text, { name: 'job.yaml', keys: KEYS });
const jobOf = (text: string): JobFile => {
  const found = parsed(text);
  expect(found.mistakes).toEqual([]);
  return found;
};
const mistakesOf = (text: string): readonly Mistake[] => parsed(text).mistakes;

describe('a job file', () => {
  it('says what a command line would, with the line of each option', () => {
    const text = `# a comment
name: sweep
array: 0-99   # another

results:
  - '*.dat'
  - "r-{index}.csv"
skip-done: true
no-logs: false
command: ./task --seed {index} > out
`;
    const { given, command } = jobOf(text);
    expect(Object.fromEntries(given)).toEqual({
      name: { values: ['sweep'], place: "'job.yaml', line 2" },
      array: { values: ['0-99'], place: "'job.yaml', line 3" },
      results: { values: ['*.dat', 'r-{index}.csv'], place: "'job.yaml', line 5" },
      'skip-done': { values: ['1'], place: "'job.yaml', line 8" },
    });
    expect(command).toEqual({
      kind: 'shell',
      text: './task --seed {index} > out',
      place: "'job.yaml', line 10",
    });
  });

  it('leaves each value as it is written', () => {
    for (const value of ['012', '1e3', 'no', '~', '0x10', '1_000', '2026-11-22', 'soon,fail=3'])
      expect(jobOf(`retries: ${value}`).given.get('retries')?.values).toEqual([value]);
  });

  it('takes one value for a list of one', () => {
    expect(jobOf('results: r.dat').given.get('results')?.values).toEqual(['r.dat']);
  });

  it.each([
    [
      'in several lines',
      'command: |\n  module load gromacs\n  gmx mdrun\n',
      { kind: 'shell', text: 'module load gromacs\ngmx mdrun' },
    ],
    [
      'as a list, without a shell',
      "command: [./task, '{index}', '']",
      { kind: 'argv', argv: ['./task', '{index}', ''] },
    ],
  ])('has its command %s', (_how, text, command) => {
    expect(jobOf(text).command).toMatchObject(command);
  });

  it('comes back as it was written, whatever the values', () => {
    const value = fc.string({
      unit: fc.constantFrom(...`ab: '"#{}[]*&!|>%@\`-?,\\é`.split('')),
      minLength: 1,
    });
    fc.assert(
      fc.property(value, fc.array(value, { minLength: 1 }), (name, results) => {
        const { given } = jobOf(stringify({ name, results }));
        expect(given.get('name')?.values).toEqual([name]);
        expect(given.get('results')?.values).toEqual(results);
      }),
    );
  });
});

describe('a mistake in a job file', () => {
  it('is told with all others', () => {
    expect(mistakesOf('retires: x\nretries: [1, 2]\nresults: *.dat\n')).toEqual([
      {
        message: "'job.yaml', line 3: YAML reads *.dat as an alias, for its first character",
        hint: "put it into quotes: '*.dat'",
      },
      { message: "'job.yaml', line 1: 'retires' is not a key of a job file", hint: 'retries' },
      { message: "'job.yaml', line 2: retries takes one value, and this is a list", hint: 'retries: 1' },
    ]);
  });

  it.each([
    ['skip_done', 'skip-done'],
    ['--results', 'results'],
    ['Array', 'array'],
    ['comand', 'command'],
    ['sbatch', 'capture template shows all keys'],
  ])('the unknown key %s may mean %s', (key, hint) => {
    expect(mistakesOf(`${key}: 1`)).toEqual([
      { message: `'job.yaml', line 1: '${key}' is not a key of a job file`, hint },
    ]);
  });

  it.each([
    ['an alias', 'results: [r.dat, *.dat]', 1, 'YAML reads *.dat as an alias, for its first character'],
    ['a mapping', '\nname: {index}', 2, 'YAML reads {index} as a mapping, for its first character'],
    ['an anchor', 'name: &x y', 1, 'YAML reads &x y as an anchor, for its first character'],
    ['a tag', 'name: !x y', 1, 'YAML reads !x y as a tag, for its first character'],
    ['a list in a list', 'results:\n  - [a]', 2, 'YAML reads [a] as a list, for its first character'],
    ['a key below a key', 'name:\n  a: b', 2, 'only a text or a list of texts can stand here'],
    ['a key inside of a value', 'name: a: b', 1, 'a key inside of a value'],
    ['the same key twice', 'name: a\nname: b', 2, 'a second name'],
    ['a tab', 'results:\n\t- a', 2, 'a tab at the beginning of a line'],
    ['a quote that is not closed', 'name: "a', 1, 'a quote that is opened here or above is never closed'],
    ['a character that YAML keeps for itself', 'name: @a', 1, 'YAML has no text that begins with @'],
    ['no colon', 'name a\narray: 1', 1, "a line without ': '"],
    ['a second document', 'name: a\n---\nname: b', 2, 'a second document begins'],
    ['a list', '- name', 1, 'a job file is one `key: value` a line'],
    ['a text', 'name', 1, 'a job file is one `key: value` a line'],
    ['nothing', '# all\n', 1, 'a job file is one `key: value` a line'],
    ['no value', 'name:', 1, 'name lacks its value'],
    ['a comment in the place of a value', 'name: #1', 1, 'name lacks its value'],
    ['an empty list', 'results: []', 1, 'results lacks its value'],
    ['neither true nor false', 'skip-done: yes', 1, 'skip-done is either true or false'],
    ['lines in the place of a list', 'results: |\n  a\n  b\n', 1, 'results has a value of several lines'],
    ['an empty command', 'command:', 1, 'the command is empty'],
    ['an empty list of arguments', 'command: []', 1, 'the command is empty'],
    ['a NUL byte', 'command: "a\\0b"', 1, 'the command holds a NUL byte'],
  ])('has its line: %s', (_what, text, line, message) => {
    expect(mistakesOf(text).map((mistake) => mistake.message)).toEqual([
      `'job.yaml', line ${line}: ${message}`,
    ]);
  });

  it('is told with a line of the file, whatever it holds', () => {
    const text = fc.string({ unit: fc.constantFrom(...`ab:: '"#{}[]*&!|>%@\`-?,<~\n\n\t\r\0é`.split('')) });
    fc.assert(
      fc.property(text, (some) => {
        for (const { message } of mistakesOf(some)) {
          const line = Number(/^'job.yaml', line (\d+): \S/.exec(message)?.[1]);
          expect(line).toBeGreaterThan(0);
          expect(line).toBeLessThanOrEqual(some.split('\n').length);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
