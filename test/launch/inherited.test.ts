import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { commandLineOf } from '../../src/launch/inherited.ts';
import { decodePath } from '../../src/model/path.ts';

const bytes = (text: string): string => decodePath(Buffer.from(text, 'latin1'));

it.each([
  ['nothing more to restore', [], []],
  ['ignored signals', ['SIGUSR1'], []],
  ['blocked signals', [], [10]],
])('variables that are not UTF-8 reach the task, and stand in no command line: %s', (_, ignored, blocked) => {
  const show = 'printf "%s|" "$SECRET" "$PLAIN" "$1" "$CAPTURED_BYTES_0" "$capture_n" "$capture_word"';
  const line = commandLineOf({
    command: 'sh',
    file: '/bin/sh',
    args: ['-c', show, 'sh', bytes('a\xFF')],
    env: { PATH: process.env['PATH'], SECRET: bytes('geh\xE4im\\0101 $PATH\n\n'), PLAIN: 'plain' },
    ignoredSignals: new Set(ignored),
    blockedSignals: blocked,
  });
  expect([line.file, line.argv0, ...line.args].join('\n')).not.toMatch(/geh|plain/);
  const { file, argv0, args, env } = line;
  const run = spawnSync(file, args, { argv0, env, encoding: 'latin1' });
  expect(run).toMatchObject({ status: 0, stderr: '' });
  expect(run.stdout).toBe('geh\xE4im\\0101 $PATH\n\n|plain|a\xFF||||');
});
