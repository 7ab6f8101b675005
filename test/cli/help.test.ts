import { describe, expect, it } from 'vitest';
import { OPTIONS, optionsOf, type CommandName } from '../../src/cli/options.ts';
import { noFiles, parse } from './given.ts';

const COMMANDS: readonly CommandName[] = ['run', 'watch', 'restore'];
const helpOf = (command: CommandName): string => {
  const result = parse([command, '--help', '--grace', 'nonsense']);
  return result.kind === 'help' ? result.text : '';
};

describe.each(COMMANDS)('the help of %s', (command) => {
  it('has every option of the command, and no other', () => {
    const shown = [...helpOf(command).matchAll(/^  (?:-\w, )?(--[a-z-]+)/gm)].map((match) => match[1]);
    expect(shown).toEqual([
      ...optionsOf(command).map((name) => /--[a-z-]+/.exec(OPTIONS[name].flags)?.[0]),
      '--help',
      '--version',
    ]);
  });

  it('tells defaults, units, exit statuses and examples, in lines of at most 100 characters', () => {
    const text = helpOf(command);
    for (const word of [
      '(default: ',
      'ms, s, m, h, d',
      'KiB',
      'CAPTURE_',
      'Exit status:',
      ' 64 ',
      'Examples:',
    ]) {
      expect(text).toContain(word);
    }
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(text.endsWith('\n')).toBe(true);
  });

  it('has examples that are right', () => {
    const examples = helpOf(command).split('Examples:\n')[1]?.trim().split('\n') ?? [];
    const outside = { ...noFiles, readText: () => 'k.chk\n' };
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) {
      const words = example
        .trim()
        .split(' ')
        .slice(1)
        .map((word) => word.replaceAll(/['"]/g, '').replace('$SLURM_ARRAY_JOB_ID', '77'));
      expect(parse(words, {}, outside)).toMatchObject({ kind: command, warnings: [] });
    }
  });
});

it('stays what users have read', () => {
  expect(helpOf('run')).toMatchSnapshot();
});

it.each([['--version'], ['-V'], ['watch', '--version']])('%j tells the version', (...argv) => {
  expect(parse(argv)).toEqual({ kind: 'version', text: '0.0.0-test\n' });
});
