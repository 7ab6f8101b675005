// Processes as the kernel knows them: the table in /proc, orphans that come to us, signals and limits.
import fs from 'node:fs';
import os from 'node:os';
import { errnoOf } from '../model/errors.ts';
import { lastErrno, libcFunction, systemError } from './libc.ts';

const prctl =
  libcFunction<
    [
      option: number,
      'unsigned long',
      number,
      'unsigned long',
      number,
      'unsigned long',
      number,
      'unsigned long',
      number,
    ]
  >('int prctl(int, ...)');
const setrlimit = libcFunction<[resource: number, limit: Buffer]>('int setrlimit(int, const void*)');
const getrlimit = libcFunction<[resource: number, limit: Buffer]>('int getrlimit(int, void*)');

const PR_SET_PDEATHSIG = 1;
const PR_SET_DUMPABLE = 4;
const PR_SET_CHILD_SUBREAPER = 36;
const RLIMIT_NOFILE = 7;

/** One line of the process table (proc_pid_stat(5)). */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** `R`, `S`, `D`, `T` (stopped), `Z` (zombie), ... */
  readonly state: string;
}

/**
 * From now on a descendant whose parent dies becomes our child (prctl(2), PR_SET_CHILD_SUBREAPER). Where the kernel has
 * no such thing, orphans go to init.
 */
export function becomeSubreaper(): void {
  setProcess(PR_SET_CHILD_SUBREAPER, 1);
}

/**
 * From now on the kernel sends us this signal when our parent dies, however that is (prctl(2), PR_SET_PDEATHSIG). False
 * if `parent` is gone already: then no signal comes.
 */
export function signalAtDeathOf(parent: number, signal: NodeJS.Signals): boolean {
  setProcess(PR_SET_PDEATHSIG, os.constants.signals[signal]);
  return process.ppid === parent;
}

/**
 * From now on no other process of our user reads our environment, memory and open files (prctl(2), PR_SET_DUMPABLE), or
 * finds them in a core file. Programs that we start are as ever (execve(2)). Only for a process that knows a secret which
 * its tasks do not: neither can a sidecar read there then where its messages go, nor a runner who is left of a task.
 */
export function hideFromOurUser(): void {
  setProcess(PR_SET_DUMPABLE, 0);
}

function setProcess(option: number, value: number): void {
  prctl(option, 'unsigned long', value, 'unsigned long', 0, 'unsigned long', 0, 'unsigned long', 0);
}

/** Our own children, of all threads, zombies too (proc_pid_task(5)); empty without /proc. */
export function childPids(): readonly number[] {
  try {
    return fs
      .readdirSync('/proc/self/task')
      .flatMap((thread) => fs.readFileSync(`/proc/self/task/${thread}/children`, 'latin1').split(' '))
      .filter((pid) => pid !== '')
      .map(Number);
  } catch (error) {
    // A kernel without CONFIG_PROC_CHILDREN, or a thread that ended while we looked.
    if (errnoOf(error) === undefined) throw error;
    return processTable()
      .filter((entry) => entry.parent === process.pid)
      .map((entry) => entry.pid);
  }
}

/** Every process that we can see; not one moment: a process can fork while we read. */
function processTable(): readonly ProcessEntry[] {
  return pidNames().flatMap((pid) => {
    const entry = processEntry(Number(pid));
    return entry === undefined ? [] : [entry];
  });
}

/** One process; undefined when it is gone. */
export function processEntry(pid: number): ProcessEntry | undefined {
  const stat = readProc(pid, 'stat');
  // The name stands in parentheses and may itself hold any byte: what counts follows the last one.
  const fields = stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields?.[0] === undefined) return undefined;
  return { pid, state: fields[0], parent: Number(fields[1]), group: Number(fields[2]) };
}

/**
 * Every living process below `root`, without the subtrees that begin with a pid of `without`. Zombies are
 * passed over, but not what lives below them.
 */
export function descendants(root: number, without: ReadonlySet<number>): readonly number[] {
  const table = processTable();
  const children = new Map<number, ProcessEntry[]>();
  for (const entry of table) children.set(entry.parent, [...(children.get(entry.parent) ?? []), entry]);
  const found: number[] = [];
  const visit = (pid: number): void => {
    for (const entry of children.get(pid) ?? []) {
      if (without.has(entry.pid)) continue;
      if (isAlive(entry)) found.push(entry.pid);
      visit(entry.pid);
    }
  };
  visit(root);
  return found;
}

/** A zombie has ended; it only waits for its parent to ask. */
export function isAlive(entry: ProcessEntry): boolean {
  return entry.state !== 'Z' && entry.state !== 'X';
}

/** Processes that were started with `NAME=value` in their environment; those of other users are not seen. */
export function processesWithEnvironment(assignment: string): readonly number[] {
  return pidNames()
    .map(Number)
    .filter((pid) => readProc(pid, 'environ')?.split('\0').includes(assignment) ?? false);
}

/** Are the processes that this program starts no children of its own? `name`: as in proc_pid_comm(5). */
export function startsElsewhere(name: string): boolean {
  return REMOTE_STARTERS.has(name);
}

/**
 * Programs that have their work done by a daemon: what writes the task's files is none of their descendants. By the
 * name in proc_pid_comm(5), which has at most 15 bytes.
 */
const REMOTE_STARTERS: ReadonlySet<string> = new Set(
  [
    'srun aprun jsrun palsrun flux lsrun blaunch qrsh pbsdsh pbs_tmrsh condor_ssh_to_',
    'docker nerdctl ctr crictl kubectl oc machinectl systemd-run ssh rsh pdsh at batch sbatch qsub bsub',
  ].flatMap((names) => names.split(' ')),
);

/** True for a process that is there and that we may not see or signal: another user's (proc(5), hidepid). */
export function isHidden(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return errnoOf(error) === 'EPERM';
  }
}

/** A file of /proc/PID as bytes in a string; undefined when the process is gone or is another user's. */
export function readProc(pid: number, name: string): string | undefined {
  try {
    return fs.readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}

function pidNames(): readonly string[] {
  try {
    return fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/** Sends a signal to a pid, or to a group when negative; false when nobody is there any more. */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    // EPERM: a member that changed its user; it cannot be ours to signal.
    const code = errnoOf(error);
    if (code === 'ESRCH' || code === 'EPERM') return false;
    throw error;
  }
}

/** Our soft limit of open files (getrlimit(2)); Node has raised it to the hard one at its start. */
export function openFilesLimit(): number {
  const limit = Buffer.alloc(16); // struct rlimit: soft, hard
  if (getrlimit(RLIMIT_NOFILE, limit) !== 0) throw systemError('getrlimit', lastErrno());
  return Number(limit.readBigUInt64LE(0));
}

/** Of the descriptors that a node allows; the others are for what else is open. Many allow 1,024, some far fewer. */
const SHARE_OF_OPEN_FILES = 1 / 8;

let sharers = 1;

/** How many runs of this process have these parts, from now on. */
export function shareOpenFilesAmong(runs: number): void {
  sharers = Math.max(1, runs);
}

/** How many descriptors one part of us may keep open: `most`, or its share of what we may open at all. */
export function shareOfOpenFiles(most: number): number {
  return Math.max(1, Math.min(most, Math.floor((openFilesLimit() * SHARE_OF_OPEN_FILES) / sharers)));
}

/** Lowers our soft limit of open files, which Node raised at its start: children inherit it (setrlimit(2)). */
export function setOpenFilesLimit(soft: number): void {
  const limit = Buffer.alloc(16); // struct rlimit: soft, hard
  if (getrlimit(RLIMIT_NOFILE, limit) !== 0) throw systemError('getrlimit', lastErrno());
  limit.writeBigUInt64LE(BigInt(soft), 0);
  if (setrlimit(RLIMIT_NOFILE, limit) !== 0) throw systemError('setrlimit', lastErrno());
}
