// All that the reading of a command line needs from the file system; the rest of it is pure.
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf, reasonOf } from '../../model/errors.ts';
import { decodePath, encodePath, showPath } from '../../model/path.ts';
import { caughtSignals, readProc } from '../../native/processes.ts';
import type { ParentProcess } from '../../scheduler/slurm-job.ts';

export interface WorkdirProblem {
  readonly why: string;
  readonly hint: string;
}

export interface Outside {
  /** The text of a file, names in it without loss; throws as node:fs does. */
  readonly readText: (file: string) => string;
  /** Why a task cannot work in the directory, and what helps; or undefined. */
  readonly workdirProblem: (dir: string) => WorkdirProblem | undefined;
  /** The path of a file below a directory, '' if it is that directory; undefined if it is elsewhere. Neither need exist. */
  readonly pathInside: (dir: string, file: string) => string | undefined;
  /** Who started us; undefined where /proc does not say. */
  readonly parent: () => ParentProcess | undefined;
}

export const realOutside: Outside = {
  readText: (file) => decodePath(fs.readFileSync(encodePath(file))),
  workdirProblem: (dir) => {
    const at = encodePath(dir);
    try {
      const stat = fs.statSync(at);
      if (!stat.isDirectory()) return { why: 'it is not a directory', hint: ELSEWHERE };
      fs.accessSync(at, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK);
      return undefined;
    } catch (error) {
      return problemOf(error, dir);
    }
  },
  pathInside,
  parent: () => {
    const argv = readProc(process.ppid, 'cmdline')?.split('\0').slice(0, -1);
    const catches = caughtSignals(readProc(process.ppid, 'status'));
    return argv === undefined || catches === undefined ? undefined : { argv, catches };
  },
};

/** By the directories themselves: a path may have links, and a file system may be mounted twice. */
function pathInside(dir: string, file: string): string | undefined {
  const there = idOf(dir);
  const names: string[] = [];
  for (let at = realPath(file); ; at = path.dirname(at)) {
    if (at === dir || (there !== undefined && idOf(at) === there)) return names.toReversed().join('/');
    if (at === '/') return undefined;
    names.push(path.basename(at));
  }
}

function idOf(dir: string): string | undefined {
  try {
    const { dev, ino } = fs.statSync(encodePath(dir), { bigint: true });
    return `${dev} ${ino}`;
  } catch {
    return undefined; // not there yet
  }
}

/** Without links, as far as it exists. */
function realPath(file: string): string {
  try {
    return decodePath(fs.realpathSync.native(encodePath(file), { encoding: 'buffer' }));
  } catch {
    const above = path.dirname(file);
    return above === file ? file : path.join(realPath(above), path.basename(file));
  }
}

const ELSEWHERE = 'start capture in a directory that can be written, or name one with --workdir';

function problemOf(error: unknown, dir: string): WorkdirProblem {
  switch (errnoOf(error)) {
    case 'ENOENT':
      return { why: 'no such directory', hint: `make the directory first: mkdir -p ${showPath(dir)}` };
    case 'ENOTDIR':
      return { why: 'it is not a directory', hint: ELSEWHERE };
    case 'EACCES':
      return denied(dir);
    case 'EROFS':
      return { why: 'the file system is read-only', hint: ELSEWHERE };
    default:
      return { why: reasonOf(error), hint: ELSEWHERE };
  }
}

/** Says who may do what there, unless the directory above hides it. */
function denied(dir: string): WorkdirProblem {
  const us = process.geteuid?.();
  try {
    const { uid, mode } = fs.statSync(encodePath(dir));
    const octal = (mode & 0o777).toString(8).padStart(3, '0');
    return {
      why: `permission denied: its owner is user ${uid}, its mode ${octal}, and you are user ${us}; the task must read, write and enter it`,
      hint: uid === us ? `chmod u+rwx ${showPath(dir)}` : ELSEWHERE,
    };
  } catch {
    return { why: 'permission denied by a directory above it', hint: ELSEWHERE };
  }
}
