import { describe, expect, it } from 'vitest';
import type { Mistake } from '../../../src/model/errors.ts';
import { type CommandTemplate, compileArgv, showCommand } from '../../../src/model/many/placeholders.ts';

const KNOWN = ['index', 'alpha'];
const VALUES = { index: '7', alpha: 'x y' };

const isTemplate = (found: CommandTemplate | readonly Mistake[]): found is CommandTemplate =>
  'argvFor' in found;
const templateOf = (found: CommandTemplate | readonly Mistake[]): CommandTemplate => {
  if (!isTemplate(found)) throw new Error(found.map(({ message }) => message).join('\n'));
  return found;
};
const mistakesOf = (found: CommandTemplate | readonly Mistake[]): readonly Mistake[] =>
  isTemplate(found) ? [] : found;

describe('a placeholder in an argument', () => {
  it.each([
    ['{index}', '7'],
    ['r-{index}.{alpha}', 'r-7.x y'],
    ['{{index}}', '{index}'],
    ['{{{index}}}', '{7}'],
    ['{{{{index}}}}', '{{index}}'],
    ['{{other}}', '{other}'],
  ])('%s is %s', (word, filled) => {
    expect(templateOf(compileArgv([word], KNOWN)).argvFor(VALUES)).toEqual([filled]);
  });

  it.each([
    ['JSON', '{"a":{"i":{index}}}', '{"a":{"i":7}}'],
    ['a program of awk', '{print $1}', '{print $1}'],
    ["find's own", '{}', '{}'],
    ["the shell's variables", '${index} ${HOME}', '${index} ${HOME}'],
    ["docker's templates", '{{.Names}}', '{{.Names}}'],
    ['lists of a shell', '{a,b}', '{a,b}'],
  ])('leaves all other braces alone: %s', (_what, word, filled) => {
    expect(templateOf(compileArgv([word], KNOWN)).argvFor(VALUES)).toEqual([filled]);
  });

  it('that is unknown is a mistake, with the nearest name; all of them are told', () => {
    expect(mistakesOf(compileArgv(['./task', '{alhpa}', '{quux}'], KNOWN))).toEqual([
      {
        message: '{alhpa} in the command is no placeholder: there is {index}, {alpha}',
        hint: '{alpha}; or {{alhpa}} if the command itself is to read it so',
      },
      {
        message: '{quux} in the command is no placeholder: there is {index}, {alpha}',
        hint: '{{quux}} if the command itself is to read it so',
      },
    ]);
  });

  it('tells which names occur', () => {
    expect(templateOf(compileArgv(['./task', '{alpha}{alpha}', '{{index}}'], KNOWN)).names).toEqual([
      'alpha',
    ]);
  });

  it('puts in what looks like a placeholder as it is', () => {
    const filled = templateOf(compileArgv(['{alpha}'], KNOWN)).argvFor({ index: '7', alpha: '{index}$&' });
    expect(filled).toEqual(['{index}$&']);
  });
});

it.each([
  [['./task', '--n=7', 'a/b.dat'], './task --n=7 a/b.dat'],
  [['sh', '-c', "echo it's"], String.raw`sh -c 'echo it'\''s'`],
  [['./task', ''], "./task ''"],
])('%j is shown as %s', (argv, shown) => {
  expect(showCommand(argv)).toBe(shown);
});
