import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Mistake } from '../../../src/model/errors.ts';
import {
  type CommandTemplate,
  compileArgv,
  compileShell,
  showCommand,
} from '../../../src/model/many/placeholders.ts';

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

describe('a placeholder in a shell command', () => {
  /** The words that a shell reads, as `printf` has them. */
  const wordsOf = (text: string, alpha: string): readonly string[] => {
    const [file = '', ...args] = templateOf(compileShell(text, KNOWN)).argvFor({ index: '7', alpha });
    return spawnSync(file, args, { encoding: 'utf8' }).stdout.split('\0').slice(0, -1);
  };

  it.each([
    ['alone', String.raw`printf '%s\0' {alpha}`, (alpha: string) => [alpha]],
    ['in a word', String.raw`printf '%s\0' a{alpha}b{index}`, (alpha: string) => [`a${alpha}b7`]],
    ['in double quotes', String.raw`printf '%s\0' "a \" {alpha} b"`, (alpha: string) => [`a " ${alpha} b`]],
    [
      'in single quotes',
      String.raw`printf '%s\0' 'a " {alpha} b' {index}`,
      (alpha: string) => [`a " ${alpha} b`, '7'],
    ],
    [
      'behind a comment with an apostrophe',
      `# it's\nprintf '%s\\0' "x#'"{alpha}`,
      (alpha: string) => [`x#'${alpha}`],
    ],
    [
      'behind a variable',
      String.raw`x=1; printf '%s\0' "\${x}{alpha}$x"`,
      (alpha: string) => [`\${x}${alpha}1`],
    ],
  ] as const)('is one piece of text for the shell: %s', (_where, text, words) => {
    const value = fc.string({ unit: fc.constantFrom(...`ab '"\\$\`;|&<>(){}[]*?~#!\n\t-é`.split('')) });
    fc.assert(
      fc.property(value, (alpha) => {
        expect(wordsOf(text, alpha)).toEqual(words(alpha));
      }),
      { numRuns: 40 },
    );
  });

  it.each([
    ['echo "$(cat {alpha})"', '$('],
    ['echo `cat {alpha}`', '`'],
    ['cat <<EOF\n{alpha}\nEOF', '<<'],
    [String.raw`echo $'it\'s' {alpha}`, "$'"],
    ['echo "${x:-"{alpha}"}"', '${'],
    [String.raw`echo \{alpha}`, 'a backslash'],
    ['echo $[{alpha}]', '$['],
    ['((x = {alpha}))', '(('],
    ['x[{alpha}]=1', '['],
    ['[[ $x =~ (#") ]] {alpha}', '=~'],
    ['a=([{alpha}]=1)', '=('],
    ['declare -A m; m+=(\n[{alpha}]=1)', '=('],
    ['a=\\\n( [1]=2 [{alpha}]=1)', '=('],
    ['cat =(echo {alpha})', '=('],
    ['echo "$\\\n(cat {alpha})"', '$('],
    ['echo $\\\n{alpha}', '$'],
  ])('is a mistake where only a shell knows how to quote: %s', (text, behind) => {
    expect(mistakesOf(compileShell(text, KNOWN))).toEqual([
      {
        message: `{alpha} stands behind ${behind}, where capture does not know how to quote its value`,
        hint: 'write the variable that has the same value: "$alpha"',
      },
    ]);
  });

  it.each([
    ['alone', '# {alpha}\np() { :; }', '# {alpha}\np() { :; }'],
    ['behind a command', 'echo {index} # {alpha} {unknown}', "echo '7' # {alpha} {unknown}"],
    ['behind an operator', 'true &&# {alpha}\necho {index}', "true &&# {alpha}\necho '7'"],
    ['behind a line that goes on', 'echo \\\n# {alpha}', 'echo \\\n# {alpha}'],
  ])('stays as it is in a comment: %s', (_where, text, filled) => {
    expect(templateOf(compileShell(text, KNOWN)).argvFor({ index: '7', alpha: '\nrm x' })).toEqual([
      'sh',
      '-c',
      filled,
    ]);
  });

  it.each([
    ['behind a blank that is quoted', String.raw`echo a\ #"{alpha}"`],
    ['inside of a word', `echo a#"{alpha}"`],
    ['inside of a word on two lines', `echo a\\\n#"{alpha}"`],
    ['behind what only looks like a blank', `echo \r#"{alpha}"`],
  ])('is text behind a # that begins no comment: %s', (_where, text) => {
    const [, , filled = ''] = templateOf(compileShell(text, KNOWN)).argvFor({ index: '7', alpha: '$(x)' });
    expect(filled).toBe(text.replace('{alpha}', `"'$(x)'"`));
  });

  it('names the variable of the index', () => {
    const [mistake] = mistakesOf(compileShell('echo $(({index} + 1))', KNOWN));
    expect(mistake?.hint).toBe('write the variable that has the same value: "$CAPTURED_INDEX"');
  });
});

it.each([
  [['./task', '--n=7', 'a/b.dat'], './task --n=7 a/b.dat'],
  [['sh', '-c', "echo it's"], String.raw`sh -c 'echo it'\''s'`],
  [['./task', ''], "./task ''"],
])('%j is shown as %s', (argv, shown) => {
  expect(showCommand(argv)).toBe(shown);
});
