// What every command promises, whichever program has it: the table, bin/capture and the programs name the same ones; each
// has a help of the same form, whose examples are right.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { ARRAY_COMMANDS } from '../../src/array/commands.ts';
import type { CommandSpec } from '../../src/cli/command.ts';
import { COMMAND_NAMES, operandsOf, programOf, titleOf, usageOf } from '../../src/cli/commands.ts';
import { flushCommand } from '../../src/cli/flush.ts';
import { withJobFile } from '../../src/cli/job/job-line.ts';
import { findCommand, type Parsed, readLine } from '../../src/cli/read-line.ts';
import { RESTORE_SPEC, RUN_SPEC, WATCH_SPEC } from '../../src/cli/run-spec.ts';
import { MANY_COMMANDS } from '../../src/many/commands.ts';
import { QUEUE_COMMANDS } from '../../src/many/queue/commands.ts';
import { BIN } from '../e2e/support.ts';
import { noFiles } from './given.ts';

const PROGRAMS: Readonly<Record<string, readonly CommandSpec[]>> = {
  capture: [RUN_SPEC, WATCH_SPEC, RESTORE_SPEC],
  flush: [flushCommand],
  many: MANY_COMMANDS,
  queue: QUEUE_COMMANDS,
  array: ARRAY_COMMANDS,
};
const ALL = Object.entries(PROGRAMS).flatMap(([program, commands]) =>
  commands.map((command) => ({ program, name: command.name, command })),
);

const FILES: Readonly<Record<string, string>> = {
  'job.yaml': 'queue: redis://h/q\nto: /store\nresults: r.dat\narray: 0-9\ncommand: ./task {index}\n',
  'runs.csv': 'seed,size\n1,2\n',
  'commands.txt': 'true\n',
  'checkpoints.txt': 'k.chk\n',
};
const outside = {
  ...noFiles,
  readText: (file: string) => FILES[file.slice(1)] ?? noFiles.readText(file),
  isFile: (file: string) => file === '/task' || file === '/solve',
};
const read = (command: CommandSpec, args: readonly string[]): Parsed<unknown> =>
  readLine(command, args, { env: { CAPTURED_SOCKET: '/s' }, cwd: '/', outside }, withJobFile);

/** Words as a shell makes them, up to a `>` or `||`. */
function wordsOf(line: string): readonly string[] {
  return line
    .replace(/ (>|\|\|).*/, '')
    .match(/(?:'[^']*'|"[^"]*"|\S)+/g)
    ?.map((word) => word.replaceAll(/['"]/g, '').replace('$SLURM_ARRAY_JOB_ID', '77')) as readonly string[];
}

it('the table names the commands of all programs, and where each is', () => {
  const found = ALL.map(({ program, name }) => `${name}: ${program}`);
  expect(found.toSorted()).toEqual(COMMAND_NAMES.map((name) => `${name}: ${programOf(name)}`).toSorted());
});

it('bin/capture sends each first word of the table to its program, and no other', () => {
  const cases = [...fs.readFileSync(BIN, 'utf8').matchAll(/^ {2}([a-z| ]+)\) main=\S*dist\/(\w+)\.cjs/gm)];
  const sent = cases.flatMap(([, words = '', program = '']) =>
    words.split(' | ').map((word) => `${word}: ${program}`),
  );
  const asked = COMMAND_NAMES.filter((name) => programOf(name) !== 'capture').map(
    (name) => `${name.split(' ')[0]}: ${programOf(name)}`,
  );
  expect(sent.toSorted()).toEqual([...new Set(asked)].toSorted());
});

it.each(['flush', 'template'])('capture %s works in a directory that was removed', (name) => {
  const gone = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-gone-'));
  const script = 'cd "$1" && rmdir "$1" && exec "$2" "$3"';
  const { PATH } = process.env;
  const found = spawnSync('/bin/sh', ['-c', script, 'sh', gone, BIN, name], {
    encoding: 'utf8',
    env: { PATH },
  });
  expect(found).toMatchObject({ status: 0 });
});

describe.each(ALL)('capture $name', ({ name, program, command }) => {
  const { help } = command;

  it('has a help in lines of at most 100 characters', () => {
    const { stdout, stderr, status } = spawnSync(BIN, [...name.split(' '), '--help'], { encoding: 'utf8' });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    expect(stdout).toMatch(new RegExp(`^Usage: ${titleOf(name)} `));
    for (const word of ['--help', 'Exit status:', ' 64 ', ' 70 ', 'Examples:'])
      expect(stdout).toContain(word);
    for (const example of help.examples) expect(stdout).toContain(`  ${example}\n`);
    const lines = stdout.split('\n').filter((line) => !line.startsWith('  capture '));
    expect(lines.filter((line) => line.length > 100)).toEqual([]);
  });

  it('stands in the help of capture, or in that of the first word', () => {
    const [first = '', second] = name.split(' ');
    const where = second === undefined ? ['--help'] : [first, '--help'];
    const { stdout } = spawnSync(BIN, where, { encoding: 'utf8' });
    expect(stdout).toContain(`\n  capture ${name} ${usageOf(name) || '[options]'}  `);
  });

  it.each(help.examples)('has an example that is right: %s', (example) => {
    const { command: found, args } = findCommand(
      [command, ...(PROGRAMS[program] ?? [])],
      wordsOf(example).slice(1),
    );
    expect(read(found, args)).toMatchObject({ kind: 'go', warnings: [] });
  });

  it('takes no more words than its usage says, and asks for those that must be there', () => {
    const mistakes = (words: readonly string[]): string => {
      const found = read(command, words);
      return found.kind === 'mistakes' ? found.mistakes.map(({ message }) => message).join('\n') : '';
    };
    const operands = operandsOf(name);
    for (const { name: what, must } of operands)
      if (must && !['url', 'command', 'directory'].includes(what))
        expect(mistakes([])).toContain(`no ${what}`);
    if (operands.some(({ isRepeated }) => isRepeated)) return;
    const tooMany = mistakes([...operands.map(() => '1'), 'more']);
    expect(tooMany).toContain(name === 'queue' ? "unknown command 'queue 1'" : "'more'");
  });
});
