// All that the reading of a command line needs from the file system; the rest of it is pure.
import fs from 'node:fs';
import { errnoOf, reasonOf } from '../../model/errors.ts';
import { decodePath, encodePath } from '../../model/path.ts';
import { readProc } from '../../native/processes.ts';
import type { ParentProcess } from '../../scheduler/slurm-job.ts';

export interface Outside {
  /** The text of a file, names in it without loss; throws as node:fs does. */
  readonly readText: (file: string) => string;
  /** Why a task cannot work in the directory, or undefined. */
  readonly workdirProblem: (dir: string) => string | undefined;
  /** Who started us; undefined where /proc does not say. */
  readonly parent: () => ParentProcess | undefined;
}

export const realOutside: Outside = {
  readText: (file) => decodePath(fs.readFileSync(encodePath(file))),
  workdirProblem: (dir) => {
    try {
      if (!fs.statSync(encodePath(dir)).isDirectory()) return 'it is not a directory';
      fs.accessSync(encodePath(dir), fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
      return undefined;
    } catch (error) {
      switch (errnoOf(error)) {
        case 'ENOENT':
          return 'no such directory';
        case 'ENOTDIR':
          return 'it is not a directory';
        case 'EACCES':
          return 'permission denied, it must be readable and writable';
        case 'EROFS':
          return 'the file system is read-only';
        default:
          return reasonOf(error);
      }
    }
  },
  parent: () => {
    const argv = readProc(process.ppid, 'cmdline')?.split('\0').slice(0, -1);
    const catches = /^SigCgt:\s*([0-9a-f]+)$/m.exec(readProc(process.ppid, 'status') ?? '')?.[1];
    return argv === undefined || catches === undefined
      ? undefined
      : { argv, catches: BigInt(`0x${catches}`) };
  },
};
