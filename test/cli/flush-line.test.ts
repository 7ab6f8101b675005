import { describe, expect, it } from 'vitest';
import { FLUSH_HELP, parseFlushLine } from '../../src/cli/flush-line.ts';
import { mistakesOf, parsed } from './given.ts';

const env = { CAPTURED_SOCKET: '/w/.capture/1.sock' };
const mistakes = (...args: readonly string[]): readonly string[] => {
  const line = parseFlushLine(args, env);
  return line.kind === 'mistakes' ? line.mistakes.map(({ message, hint }) => `${message} | ${hint}`) : [];
};

describe('capture flush', () => {
  it.each([
    [[], { ping: false, timeoutMs: 30_000, socket: '/w/.capture/1.sock' }],
    [['--timeout', '2m'], { timeoutMs: 120_000 }],
    [['--strict'], { strict: true }],
    [['--ping'], { timeoutMs: 5000, ping: true, strict: false }],
    [['--timeout=250ms', '--ping'], { timeoutMs: 250, ping: true }],
    [['--control', '/shared/c'], { socket: '/shared/c' }],
    [['--control=/a=b'], { socket: '/a=b' }],
  ])('understands %j', (args, meant) => {
    expect(parseFlushLine(args, env)).toMatchObject({ kind: 'ask', ...meant });
  });

  it('takes the options of a run, which mean nothing to it', () => {
    const run = '-r out/ -kk.chk --to=/s --index 3 --keep --grace 30s --checkpoint-settle=1s --dry-run';
    expect(parseFlushLine([...run.split(' '), '--timeout', '2m'], env)).toEqual({
      kind: 'ask',
      ping: false,
      strict: false,
      timeoutMs: 120_000,
      socket: '/w/.capture/1.sock',
    });
  });

  it('asks the capture that runs this task before the one that the environment names for all', () => {
    const both = { ...env, CAPTURE_CONTROL: '/shared/c' };
    expect(parseFlushLine([], both)).toMatchObject({ socket: '/w/.capture/1.sock' });
    expect(parseFlushLine([], { CAPTURE_CONTROL: '/shared/c', CAPTURED_SOCKET: '' })).toMatchObject({
      socket: '/shared/c',
    });
  });

  it.each([
    ['a script that is run without capture', [], {}, 'no-run'],
    ['a task whose capture has no socket', [], { CAPTURED_RUN: 'token' }, 'no-socket'],
    ['one that wants to be sure', ['--strict'], {}, 'no-socket'],
    ['a probe', ['--ping'], {}, 'no-socket'],
  ] as const)('without a socket is, of %s, %j in %j: %s', (_, args, variables, kind) => {
    expect(parseFlushLine(args, variables)).toEqual({ kind });
  });

  it.each([
    [['--timeout', '30'], '--timeout 30s'],
    [['--timeout'], '--timeout lacks its value'],
    [['--timeout', '--ping'], '--timeout lacks its value'],
    [['--timout', '3s'], '| --timeout'],
    [['--grace'], '--grace lacks its value'],
    [['--keep=1'], '--keep takes no value'],
    [['--handoff'], 'unknown option --handoff'],
    [['--ping=1'], '--ping takes no value'],
    [['now'], "capture flush takes no 'now'"],
    [['--control', ''], 'not a path'],
    [['--control', `/${'x'.repeat(107)}`], 'at most 107 bytes, this one 108'],
  ])('says what is wrong with %j', (args, message) => {
    expect(mistakes(...args).join('\n')).toContain(message);
  });

  it('says all mistakes at once', () => {
    expect(mistakes('--timeout', '3', '--pong', 'x')).toHaveLength(3);
  });

  it.each([
    ['-h', 'help'],
    ['--help', 'help'],
    ['-V', 'version'],
    ['--version', 'version'],
  ])('tells with %s what it is asked for', (flag, kind) => {
    expect(parseFlushLine([flag], {})).toEqual({ kind });
  });

  it('has a help of at most 100 characters a line, whose examples are right', () => {
    expect(Math.max(...FLUSH_HELP.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
    const examples = FLUSH_HELP.split('Examples:\n')[1]?.trim().split('\n') ?? [];
    expect(examples).toHaveLength(3);
    for (const example of examples) {
      const args = example
        .trim()
        .replace(/ \|\|.*/, '')
        .split(' ')
        .slice(2);
      expect(parseFlushLine(args, env).kind).toBe('ask');
    }
  });
});

describe('--control of capture watch', () => {
  it('names the socket, from the current directory on', () => {
    expect(parsed(['watch', '-r', 'r', '--to', '/s', '--control', 'c']).settings.control).toBe('/c');
    expect(parsed(['watch', '-r', 'r', '--to', '/s']).settings.control).toBeUndefined();
    expect(parsed(['watch', '-r', 'r'], { CAPTURE_CONTROL: '/c' }).settings.control).toBe('/c');
  });

  it('is refused when no socket can have such a name, and for a run', () => {
    expect(mistakesOf(['watch', '--control', `/${'é'.repeat(60)}`])).toEqual([
      expect.stringContaining('at most 107 bytes, this one 121'),
    ]);
    expect(mistakesOf(['--control', '/c', '--', 'x'])).toEqual([expect.stringContaining('unknown option')]);
  });
});
