// What capture inherits from its caller and Node would change on the way to the task: ignored and blocked signals,
// open files, the soft limit of open files, and arguments that are not UTF-8. The shell shim (bin/capture) records it
// before Node starts, in variables that never reach the task. sh(1) and env(1) restore it and then exec the task.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { errnoOf } from '../model/errors.ts';
import { pathBytes } from '../model/path.ts';

/** Set by bin/capture, for this process only. */
export const SHIM_VARIABLES = ['CAPTURE_SIGIGN', 'CAPTURE_SIGBLK', 'CAPTURE_FDS', 'CAPTURE_NOFILE'] as const;

export interface Inherited {
  /** Signals that the caller ignored (`nohup`), by name. */
  readonly ignoredSignals: ReadonlySet<string>;
  /** Numbers of the signals that the caller blocked (sigprocmask(2)). */
  readonly blockedSignals: readonly number[];
  /** Open files above 2 that the caller passed on: bash's `<(...)`, make's jobserver, PMI. */
  readonly fds: readonly number[];
  /** Soft limit of open files; undefined: leave it as it is. */
  readonly openFilesLimit: number | undefined;
}

/** Reads the shim's variables. Without the shim, nothing was inherited. */
export function readInherited(env: NodeJS.ProcessEnv): Inherited {
  return {
    ignoredSignals: namesOf(signalsOfMask(env['CAPTURE_SIGIGN'])),
    blockedSignals: signalsOfMask(env['CAPTURE_SIGBLK']),
    fds: (env['CAPTURE_FDS'] ?? '')
      .split(' ')
      .map(Number)
      .filter((fd) => Number.isInteger(fd) && fd > 2 && isOpen(fd)),
    openFilesLimit: /^\d+$/.test(env['CAPTURE_NOFILE'] ?? '') ? Number(env['CAPTURE_NOFILE']) : undefined,
  };
}

/** The shim cannot always tell its own files from the caller's; its own are closed by now. */
function isOpen(fd: number): boolean {
  try {
    fs.fstatSync(fd);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EBADF') return false;
    throw error;
  }
}

/** SigIgn and SigBlk of proc_pid_status(5): hexadecimal, bit n-1 is signal n. */
function signalsOfMask(mask = ''): readonly number[] {
  const bits = /^[0-9a-f]+$/i.test(mask) ? BigInt(`0x${mask}`) : 0n;
  const all = Array.from({ length: 64 }, (_, n) => n + 1);
  return all.filter((number) => ((bits >> BigInt(number - 1)) & 1n) === 1n);
}

function namesOf(numbers: readonly number[]): ReadonlySet<string> {
  const named = Object.entries(os.constants.signals).filter(([, number]) => numbers.includes(number));
  return new Set(named.map(([name]) => name));
}

/** The environment as the caller passed it. */
export function withoutShim(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const dropped: readonly string[] = SHIM_VARIABLES;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !dropped.includes(name)));
}

interface TaskCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute path of the program that `command` names. */
  readonly file: string;
  readonly env: NodeJS.ProcessEnv;
}

interface SignalState {
  readonly ignoredSignals: ReadonlySet<string>;
  /** By number. */
  readonly blockedSignals: readonly number[];
}

export interface CommandLine {
  readonly file: string;
  readonly argv0: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** The command line that becomes the task, with the arguments, variables and signals that the caller passed. */
export function commandLineOf(task: TaskCommand & SignalState): CommandLine {
  return withSignalState(withBytes(task));
}

/**
 * The first letter of each word is its type: `=` a literal word, `b` a word to build, `e` the name of a variable that
 * holds another one to build. The dot after a word protects its last newline, because $( ) removes trailing newlines.
 * printf is a builtin: no other process gets the words.
 */
const BUILD_AND_EXEC = `capture_n=$#
while [ "$capture_n" -gt 0 ]; do
  case $1 in
    e*) eval "capture_word=\\$\${1#e}"; unset "\${1#e}" ;;
    *) capture_word=\${1#?} ;;
  esac
  case $1 in
    =*) ;;
    *) capture_word=$(printf '%b.' "$capture_word"); capture_word=\${capture_word%.} ;;
  esac
  case $1 in e*) export "$capture_word" ;; *) set -- "$@" "$capture_word" ;; esac
  shift
  capture_n=$((capture_n - 1))
done
unset capture_n capture_word
exec "$@"`;

/**
 * Node writes every string as UTF-8, so sh(1) builds the bytes of arguments and variables that are not UTF-8. All users
 * can read a command line, but not an environment (proc(5)): so the values of variables stand only in variables.
 * Returns the same words if none needs that.
 */
function withBytes<T extends TaskCommand>(words: T): T {
  const { command, args, env } = words;
  const variables = Object.entries(env).filter(
    ([name, value]) => isBytes(value ?? '') && /^[A-Za-z_]\w*$/.test(name),
  );
  if (variables.length === 0 && ![command, ...args].some(isBytes)) return words;
  const names = new Set(variables.map(([name]) => name));
  const toBuild = variables.map(
    ([name, value], at) => [`CAPTURED_BYTES_${at}`, escaped(`${name}=${value ?? ''}`)] as const,
  );
  const made = [
    ...toBuild.map(([holder]) => `e${holder}`),
    ...[command, ...args].map((word) => (isBytes(word) ? `b${escaped(word)}` : `=${word}`)),
  ];
  const others = Object.entries(env).filter(([name]) => !names.has(name));
  return {
    ...words,
    command: 'sh',
    file: '/bin/sh',
    args: ['-c', BUILD_AND_EXEC, 'sh', ...made],
    env: Object.fromEntries([...others, ...toBuild]),
  };
}

function isBytes(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}

/** Escapes for %b of printf(1). */
function escaped(text: string): string {
  return Array.from(pathBytes(text), (byte) =>
    byte === 0x5c || byte >= 0x80 ? `\\0${byte.toString(8).padStart(3, '0')}` : String.fromCharCode(byte),
  ).join('');
}

const ENV = '/usr/bin/env';

/**
 * Node starts every child with the default dispositions and an empty mask. sh(1) and env(1) set them again, and
 * execve(2) keeps both.
 */
function withSignalState({ command, args, file, env, ...state }: SignalState & TaskCommand): CommandLine {
  const ignored = Object.entries(os.constants.signals).flatMap(([name, n]) =>
    state.ignoredSignals.has(name) ? [n] : [],
  );
  const blocked = state.blockedSignals;
  if (ignored.length === 0 && blocked.length === 0) return { file, argv0: command, args, env };
  const trap = ignored.length === 0 ? '' : `trap '' ${[...new Set(ignored)].join(' ')}; `;
  const shell = ['-c', `${trap}exec "$@"`, 'sh', command, ...args];
  if (blocked.length === 0) return { file: '/bin/sh', argv0: 'sh', args: shell, env };
  return { file: ENV, argv0: 'env', args: [`--block-signal=${blocked.join(',')}`, 'sh', ...shell], env };
}

/** The caller's blocked signals that can be blocked for the task; none if this env(1) cannot do it. */
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
