import { describe, expect, it } from 'vitest';
import { optionsOf } from '../../src/cli/options.ts';
import type { RunName } from '../../src/cli/options/spec.ts';
import { parse } from './given.ts';

const COMMANDS: readonly RunName[] = ['run', 'watch', 'restore'];
const helpOf = (command: RunName): string => {
  const result = parse([command, '--help', '--grace', 'nonsense']);
  return result.kind === 'text' ? result.text : '';
};

describe.each(COMMANDS)('the help of %s', (command) => {
  it('has every option of the command, and no other', () => {
    const shown = [...helpOf(command).matchAll(/^  (?:-\w, )?(--[a-z-]+)/gm)].map((match) => match[1]);
    expect(shown).toEqual([...optionsOf(command).map(({ name }) => `--${name}`), '--help', '--version']);
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
});

it('stays what users have read', () => {
  expect(helpOf('run')).toMatchSnapshot();
});

it.each([['--version'], ['-V'], ['watch', '--version']])('%j tells the version', (...argv) => {
  expect(parse(argv)).toEqual({ kind: 'text', text: '0.0.0-test\n' });
});
