// What we got from our caller and Node has changed before our first line runs: ignored and blocked signals, open
// files, the soft limit of open files. The shell shim (bin/capture) saw it, and tells us in variables that never
// reach the task.
import fs from 'node:fs';
import os from 'node:os';
import { errnoOf } from '../model/errors.ts';

/** Set by bin/capture, for this process only. */
export const SHIM_VARIABLES = ['CAPTURE_SIGIGN', 'CAPTURE_SIGBLK', 'CAPTURE_FDS', 'CAPTURE_NOFILE'] as const;

export interface Inherited {
  /** Signals that the caller ignored (`nohup`), by name. */
  readonly ignoredSignals: ReadonlySet<string>;
  /** Numbers of the signals that the caller blocked (sigprocmask(2)). */
  readonly blockedSignals: readonly number[];
  /** Open files above 2 that the caller passed on: bash's `<(...)`, make's job server, PMI. */
  readonly fds: readonly number[];
  /** Soft limit of open files; undefined: leave it as it is. */
  readonly openFilesLimit: number | undefined;
}

/** Reads the shim's variables; without the shim, nothing was inherited. */
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

/** The environment as our caller gave it. */
export function withoutShim(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const dropped: readonly string[] = SHIM_VARIABLES;
  return Object.fromEntries(Object.entries(env).filter(([name]) => !dropped.includes(name)));
}
