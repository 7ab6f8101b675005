// All file system access that parsing a command line needs. The rest of the parser is pure.
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf, reasonOf } from '../../model/errors.ts';
import { decodePath, encodePath, showPath } from '../../model/path.ts';
import { otherServers } from '../../native/mounts.ts';
import { readNamedText } from '../../native/named-file.ts';
import { caughtSignals, readProc } from '../../native/processes.ts';
import type { ParentProcess } from '../../scheduler/slurm-job.ts';

export interface WorkdirProblem {
  readonly why: string;
  readonly hint: string;
}

export interface Outside {
  /** {@link readNamedText} */
  readonly readText: (file: string, mostBytes?: number) => string;
  /** Follows links. False also if a directory above it hides it. */
  readonly isFile: (file: string) => boolean;
  /** Why a task cannot work in the directory, and what helps. Undefined if it can. */
  readonly workdirProblem: (dir: string) => WorkdirProblem | undefined;
  /**
   * The path of a file relative to a directory, '' for the directory itself. Undefined if it is outside. Neither must
   * exist.
   */
  readonly pathInside: (dir: string, file: string) => string | undefined;
  /** The process that started us; undefined if /proc does not show it. */
  readonly parent: () => ParentProcess | undefined;
}

export const realOutside: Outside = {
  readText: readNamedText,
  isFile,
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

function isFile(file: string): boolean {
  try {
    return fs.statSync(encodePath(file)).isFile();
  } catch {
    return false;
  }
}

/**
 * Compares the directories themselves, because a path may contain links, and a file system may be mounted twice. Never
 * asks a file server that has nothing of `dir`: it may not answer.
 */
function pathInside(dir: string, file: string): string | undefined {
  const there = idOf(dir);
  const isElsewhere = otherServers(realPath(dir));
  const names: string[] = [];
  for (let at = pathOnServer(file, isElsewhere) ?? realPath(file); ; at = path.dirname(at)) {
    if (at === dir || (there !== undefined && !isElsewhere(at) && idOf(at) === there))
      return names.toReversed().join('/');
    if (at === '/') return undefined;
    names.push(path.basename(at));
  }
}

function idOf(dir: string): string | undefined {
  try {
    const { dev, ino } = fs.statSync(encodePath(dir), { bigint: true });
    return `${dev} ${ino}`;
  } catch {
    return undefined; // does not exist yet
  }
}

/** As the kernel: path_resolution(7). */
const MOST_LINKS = 40;

/** The path on the server that `file` is on, with the links on the way to it resolved. Undefined if it is on none. */
function pathOnServer(file: string, isServer: (at: string) => boolean, hops = 0): string | undefined {
  const names = file.split('/').slice(1);
  for (let count = 1; count <= names.length; count += 1) {
    const at = `/${names.slice(0, count).join('/')}`;
    if (isServer(at)) return file;
    const target = linkAt(at);
    if (target === undefined) continue;
    const whole = path.resolve(path.dirname(at), target, ...names.slice(count));
    return hops === MOST_LINKS ? undefined : pathOnServer(whole, isServer, hops + 1);
  }
  return undefined;
}

function linkAt(file: string): string | undefined {
  try {
    return decodePath(fs.readlinkSync(encodePath(file), { encoding: 'buffer' }));
  } catch {
    return undefined; // no link, or nothing
  }
}

/** Resolves links in the part of the path that exists. */
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

/** Describes the permissions of the directory, unless its parent hides them. */
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
