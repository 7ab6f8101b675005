// What the shell shim saw of its caller and Node has already changed when our first line runs: ignored
// signals, open files, the soft limit of open files. Variables of the shim never reach the task.
import fs from 'node:fs';
import os from 'node:os';
import { errnoOf } from '../core/errors.ts';

/** Set by bin/capture, for this process only. */
export const SHIM_VARIABLES = ['CAPTURE_SIGIGN', 'CAPTURE_FDS', 'CAPTURE_NOFILE'] as const;

export interface Inherited {
  /** Signals that the caller ignored (`nohup`), by name. */
  readonly ignoredSignals: ReadonlySet<string>;
  /** Open files above 2 that the caller passed on: bash's `<(...)`, make's job server, PMI. */
  readonly fds: readonly number[];
  /** Soft limit of open files; undefined: leave it as it is. */
  readonly openFilesLimit: number | undefined;
}

/** Reads the shim's variables; without the shim, nothing was inherited. */
export function readInherited(env: NodeJS.ProcessEnv): Inherited {
  return {
    ignoredSignals: signalsOfMask(env['CAPTURE_SIGIGN'] ?? ''),
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

/** SigIgn of proc_pid_status(5): hexadecimal, bit n-1 is signal n. */
function signalsOfMask(mask: string): ReadonlySet<string> {
  const bits = /^[0-9a-f]+$/i.test(mask) ? BigInt(`0x${mask}`) : 0n;
  const isSet = (number: number): boolean => ((bits >> BigInt(number - 1)) & 1n) === 1n;
  return new Set(
    Object.entries(os.constants.signals)
      .filter(([, number]) => isSet(number))
      .map(([name]) => name),
  );
}
