// Processes as the kernel knows them: the table in /proc, adopted orphans, signals and limits.
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

/** USER_HZ, the unit of times in proc_pid_stat(5): 100 on every architecture that Node runs on. */
const TICKS_PER_S = 100;
/** PF_EXITING of linux/sched.h. */
const PF_EXITING = 0x4;

/** Fields of proc_pid_stat(5). */
export interface ProcessStat {
  readonly name: string;
  /** `R`, `S`, `D`, `T` (stopped), `Z` (zombie), ... */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  /** PF_* of linux/sched.h. */
  readonly flags: number;
  /** Minor faults of children that it has waited for. */
  readonly childFaults: number;
  readonly threads: number;
  /** CPU time of all threads, s. */
  readonly cpuS: number;
  /** CPU time of children that it has waited for, and of those that they have waited for, s. */
  readonly waitedCpuS: number;
  /** Clock ticks since boot. */
  readonly startTicks: number;
  /** The mask of the signals 1 to 31 that it ignores. */
  readonly ignores: number;
  /** For a zombie, the status that its parent will get (wait(2)); 0 for other users. */
  readonly waitStatus: number;
}

/**
 * From now on a descendant whose parent dies becomes our child (prctl(2), PR_SET_CHILD_SUBREAPER). If the kernel does
 * not support it, orphans go to init.
 */
export function becomeSubreaper(): void {
  callPrctl(PR_SET_CHILD_SUBREAPER, 1);
}

/**
 * From now on the kernel sends us this signal when our parent dies, for whatever reason (prctl(2), PR_SET_PDEATHSIG).
 * False if `parent` has died already: then no signal comes.
 */
export function signalAtDeathOf(parent: number, signal: NodeJS.Signals): boolean {
  callPrctl(PR_SET_PDEATHSIG, os.constants.signals[signal]);
  return process.ppid === parent;
}

/**
 * From now on no other process of our user can read our environment, memory and open files (prctl(2), PR_SET_DUMPABLE),
 * and no core file contains them. Programs that we start are not affected (execve(2)). Only for a process that knows a
 * secret which its tasks do not. Not for a launcher: its sidecar could not open its stderr, and a runner could not find
 * it among the processes of a task.
 */
export function hideFromOurUser(): void {
  callPrctl(PR_SET_DUMPABLE, 0);
}

function callPrctl(option: number, value: number): void {
  prctl(option, 'unsigned long', value, 'unsigned long', 0, 'unsigned long', 0, 'unsigned long', 0);
}

/** Every process that we can see. Not a snapshot: a process can fork while we read. */
export function processTable(): ReadonlyMap<number, ProcessStat> {
  const table = new Map<number, ProcessStat>();
  for (const pid of processIds()) {
    const stat = readStat(pid);
    if (stat !== undefined) table.set(pid, stat);
  }
  return table;
}

/** One process; undefined if it is gone, or hidden from us. */
export function readStat(pid: number): ProcessStat | undefined {
  const text = readProc(pid, 'stat');
  return text === undefined ? undefined : parseStat(text);
}

/** The name is in parentheses, and may contain any byte: the other fields follow the last parenthesis. */
export function parseStat(text: string): ProcessStat {
  const end = text.lastIndexOf(')');
  const fields = text.slice(end + 2).split(' ');
  const field = (number: number): number => Number(fields[number - 3]);
  return {
    name: text.slice(text.indexOf('(') + 1, end),
    state: fields[0] ?? '',
    parent: field(4),
    group: field(5),
    flags: field(9),
    childFaults: field(11),
    cpuS: (field(14) + field(15)) / TICKS_PER_S,
    waitedCpuS: (field(16) + field(17)) / TICKS_PER_S,
    threads: field(20),
    startTicks: field(22),
    ignores: field(33),
    waitStatus: field(52),
  };
}

/**
 * `exiting`: it closes its files, or soon will. `dead`: it has closed them, and its parent has not waited for it yet. A
 * main thread may end before the others: they still have the files open.
 */
export function lifeOf({ state, flags, threads }: ProcessStat): 'alive' | 'exiting' | 'dead' {
  const isOver = state === 'Z' || state === 'X';
  if (isOver && threads <= 1) return 'dead';
  return isOver || (flags & PF_EXITING) !== 0 ? 'exiting' : 'alive';
}

/**
 * Every living process below `root`, without the subtrees of the pids in `without`. Leaves zombies out, but not their
 * descendants.
 */
export function descendants(root: number, without: ReadonlySet<number>): readonly number[] {
  const table = processTable();
  const children = new Map<number, number[]>();
  for (const [pid, { parent }] of table) children.set(parent, [...(children.get(parent) ?? []), pid]);
  const found: number[] = [];
  const visit = (parent: number): void => {
    for (const pid of children.get(parent) ?? []) {
      if (without.has(pid)) continue;
      if (!isZombie(table.get(pid))) found.push(pid);
      visit(pid);
    }
  };
  visit(root);
  return found;
}

/** A zombie has ended, and its parent has not waited for it yet. */
export function isZombie(stat: ProcessStat | undefined): boolean {
  return stat?.state === 'Z' || stat?.state === 'X';
}

/** Processes that were started with `NAME=value` in their environment. Those of other users are not found. */
export function processesWithEnvironment(assignment: string): readonly number[] {
  return processIds().filter((pid) => readProc(pid, 'environ')?.split('\0').includes(assignment) ?? false);
}

/**
 * True if a program has its processes started by a daemon, so that they are not its children. `name`: as in
 * proc_pid_comm(5).
 */
export function startsElsewhere(name: string): boolean {
  return REMOTE_STARTERS.has(name);
}

/**
 * Programs that let a daemon do the work: the processes that write the task's files are not their descendants. Names as
 * in proc_pid_comm(5), of at most 15 bytes.
 */
const REMOTE_STARTERS: ReadonlySet<string> = new Set(
  [
    'srun aprun jsrun palsrun flux lsrun blaunch qrsh pbsdsh pbs_tmrsh condor_ssh_to_',
    'docker nerdctl ctr crictl kubectl oc machinectl systemd-run ssh rsh pdsh at batch sbatch qsub bsub',
  ].flatMap((names) => names.split(' ')),
);

/** True for a process that exists but that we may not see or signal: another user's (proc(5), hidepid). */
export function isHidden(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return errnoOf(error) === 'EPERM';
  }
}

/** The mask of the signals that a process catches, from its proc_pid_status(5). */
export function caughtSignals(status = ''): bigint | undefined {
  const mask = /^SigCgt:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  return mask === undefined ? undefined : BigInt(`0x${mask}`);
}

/** A file of /proc/PID, one character for each byte; undefined if the process is gone, or another user's. */
export function readProc(pid: number, name: string): string | undefined {
  try {
    return fs.readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}

/** The pids of all processes that we can see; none without /proc. */
export function processIds(): readonly number[] {
  try {
    return fs.readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

/**
 * Sends a signal to a pid, or to a group if negative; false if it does not exist any more, or is not ours to signal.
 */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch (error) {
    // EPERM: the process has changed its user, and so it is not ours to signal.
    const code = errnoOf(error);
    if (code === 'ESRCH' || code === 'EPERM') return false;
    throw error;
  }
}

/** Our soft limit of open files (getrlimit(2)). Node raises it to the hard limit when it starts. */
export function openFilesLimit(): number {
  const limit = Buffer.alloc(16); // struct rlimit: soft, hard
  if (getrlimit(RLIMIT_NOFILE, limit) !== 0) throw systemError('getrlimit', lastErrno());
  return Number(limit.readBigUInt64LE(0));
}

/**
 * One part's share of the descriptors that a node allows; the rest is for other files. Many nodes allow 1,024, some far
 * fewer.
 */
const SHARE_OF_OPEN_FILES = 1 / 8;

let sharers = 1;

/** From now on, this many runs of the process share its descriptors. */
export function shareOpenFilesAmong(runs: number): void {
  sharers = Math.max(1, runs);
}

/** How many descriptors one part of capture may keep open: at most `most`, and at most its share of the limit. */
export function shareOfOpenFiles(most: number): number {
  return Math.max(1, Math.min(most, Math.floor((openFilesLimit() * SHARE_OF_OPEN_FILES) / sharers)));
}

/** Lowers our soft limit of open files, which Node has raised when it started: children inherit it (setrlimit(2)). */
export function setOpenFilesLimit(soft: number): void {
  const limit = Buffer.alloc(16); // struct rlimit: soft, hard
  if (getrlimit(RLIMIT_NOFILE, limit) !== 0) throw systemError('getrlimit', lastErrno());
  limit.writeBigUInt64LE(BigInt(soft), 0);
  if (setrlimit(RLIMIT_NOFILE, limit) !== 0) throw systemError('setrlimit', lastErrno());
}
