// Passes the signals that our caller ignores and blocks on to the task, although Node starts every child with the
// default dispositions and an empty mask: sh(1) and env(1) set them and then become the task, and execve(2) keeps
// both.
import { spawnSync } from 'node:child_process';
import os from 'node:os';

const ENV = '/usr/bin/env';

export interface SignalState {
  readonly ignoredSignals: ReadonlySet<string>;
  /** By number. */
  readonly blockedSignals: readonly number[];
}

export interface CommandLine {
  readonly file: string;
  readonly argv0: string;
  readonly args: readonly string[];
}

/** `file`: absolute path of what `command`, the task's argv[0], was found to be. */
export function withSignalState({
  command,
  args,
  file,
  ...state
}: SignalState & {
  readonly command: string;
  readonly args: readonly string[];
  readonly file: string;
}): CommandLine {
  const ignored = Object.entries(os.constants.signals).flatMap(([name, n]) =>
    state.ignoredSignals.has(name) ? [n] : [],
  );
  const blocked = state.blockedSignals;
  if (ignored.length === 0 && blocked.length === 0) return { file, argv0: command, args };
  const trap = ignored.length === 0 ? '' : `trap '' ${[...new Set(ignored)].join(' ')}; `;
  const shell = ['-c', `${trap}exec "$@"`, 'sh', command, ...args];
  if (blocked.length === 0) return { file: '/bin/sh', argv0: 'sh', args: shell };
  return { file: ENV, argv0: 'env', args: [`--block-signal=${blocked.join(',')}`, 'sh', ...shell] };
}

/** The signals of the caller that can be blocked for the task: none if this env(1) cannot do it. */
export function blockable(
  numbers: readonly number[],
  warn: (message: string, hint: string) => void,
): readonly number[] {
  if (numbers.length === 0) return numbers;
  const probe = spawnSync(ENV, [`--block-signal=${numbers.join(',')}`, 'true'], { stdio: 'ignore' });
  if (probe.status === 0) return numbers;
  warn(
    `signals that the caller blocks (${numbers.join(', ')}) are not blocked for the task`,
    'env --block-signal, of coreutils 8.31 or later, is what blocks them',
  );
  return [];
}
