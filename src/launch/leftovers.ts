// Processes that the task leaves behind. The launcher becomes the parent of its orphans and reaps them, so no zombie
// stays. After the task's main process has ended, the launcher waits for processes that still write a declared file,
// and ends all others. None is left when the final scan begins.
import fs from 'node:fs';
import type { Usage } from '../model/format/messages.ts';
import { encodePath } from '../model/path.ts';
import { KILL_AFTER_MS } from '../model/relay.ts';
import type { WorkDir } from '../native/beneath.ts';
import { clockMs } from '../native/clock.ts';
import { reapChild } from '../native/ended.ts';
import { addTree, childPids, type ProcessFacts } from '../native/proc-reader.ts';
import {
  becomeSubreaper,
  descendants,
  lifeOf,
  processesWithEnvironment,
  processTable,
  readStat,
  sendSignal,
} from '../native/processes.ts';
import type { Writers } from './writers.ts';

export interface Orphans {
  /**
   * Every living process of the task: all descendants of the launcher, except the sidecar and children that were there
   * before.
   */
  members(sidecarPid: number | undefined): readonly number[];
  /** Resolves when the next child ends, or after `ms`. */
  change(ms: number): Promise<void>;
  /** Resource usage of the processes that have ended. */
  readonly usage: Usage;
  close(): void;
}

/** How often a look that finds nobody is repeated while children are left. Then these count as living. */
const MOST_LOOKS = 100;

/**
 * Adopts orphans from now on; call it before anything is started. It never reaps the launcher's own children: whoever
 * started one takes its status. `ownChildren`: these running children. Whoever starts one adds it in the same turn of
 * the event loop.
 */
export function adoptOrphans(ownChildren: ReadonlySet<number>): Orphans {
  // A shell that starts something in the background and then execs capture leaves it as the launcher's child.
  const before = new Set(childPids().filter((pid) => !ownChildren.has(pid)));
  becomeSubreaper();
  const waiting = new Set<() => void>();
  let usage: Usage = { cpuS: 0, maxRssBytes: 0 };
  const reap = (): void => {
    for (const pid of childPids()) {
      const reaped = ownChildren.has(pid) ? undefined : reapChild(pid);
      if (reaped === undefined) continue;
      before.delete(pid); // Another process may get this pid.
      usage = usageOfBoth(usage, reaped.usage);
    }
  };
  const ended = (): void => {
    reap();
    for (const wake of waiting) wake();
  };
  process.on('SIGCHLD', ended);
  return {
    members: (sidecarPid) => {
      const without = new Set([...before, sidecarPid ?? 0]);
      const mayHide = (pid: number): boolean => !ownChildren.has(pid) && !before.has(pid);
      for (let look = 1; ; look += 1) {
        const { living, children } = lookBelowUs(without);
        if (living.length > 0) return living;
        const others = children.filter(mayHide);
        if (others.length === 0 || look === MOST_LOOKS) return others;
        reap();
      }
    },
    change: (ms) =>
      new Promise((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, ms);
        waiting.add(wake);
      }),
    get usage() {
      return usage;
    },
    close: () => {
      process.removeListener('SIGCHLD', ended);
      for (const wake of waiting) wake();
    },
  };
}

/**
 * No look is a snapshot: a process may fork and end behind our back. But the kernel appends an adopted orphan to the end
 * of our list of children, and a child that has ended stays in it until we reap it. So if one reading of the list finds
 * none but our own, no other process is left.
 */
function lookBelowUs(without: ReadonlySet<number>): {
  readonly living: readonly number[];
  readonly children: readonly number[];
} {
  const found = new Map<number, ProcessFacts>();
  addTree(found, process.pid, without);
  const { children } = found.get(process.pid) ?? {};
  // The kernel lists no children (no CONFIG_PROC_CHILDREN).
  if (children === undefined) return { living: descendants(process.pid, without), children: childPids() };
  found.delete(process.pid);
  return { living: [...found].flatMap(([pid, facts]) => (lifeOf(facts) === 'dead' ? [] : [pid])), children };
}

export function usageOfBoth(one: Usage, other: Usage | undefined): Usage {
  if (other === undefined) return one;
  return {
    cpuS: one.cpuS + other.cpuS,
    maxRssBytes: Math.max(one.maxRssBytes, other.maxRssBytes),
  };
}

/**
 * A process that survives SIGKILL hangs in the kernel; the launcher then continues without it. Together with the time
 * before it, this stays below WRAPPER_DELAY_MS (model/file/suspect.ts): files that a forced end closed must not count
 * as whole in the meantime.
 */
const AFTER_SIGKILL_MS = 4000;
/** No event tells that a process closed a file: while waiting for one, look this often. */
const LOOK_EVERY_MS = 100;

interface LeftoverOptions {
  readonly writers: Pick<Writers, 'among'>;
  /** CAPTURED_RUN of this task. */
  readonly runToken: string;
  /** Living processes of the task. */
  readonly members: () => readonly number[];
  /** Resolves when a child has ended, or after `ms`. */
  readonly change: (ms: number) => Promise<void>;
  /** How long to wait for writers, ms since the epoch. Read repeatedly, because it may move closer. */
  readonly writersUntilMs: () => number;
  /** From this instant on every process is killed, ms since the epoch. */
  readonly killAtMs: () => number | undefined;
}

interface LeftoversEnded {
  /** Pids that survived SIGKILL. */
  readonly stuck: readonly number[];
  /**
   * When the first process that may have had a declared file open for writing was told to end, ms since the epoch:
   * closes from then on prove nothing. Undefined: there was none.
   */
  readonly writersStoppedAtMs: number | undefined;
}

/** A process that was told to end. */
interface Told {
  /** The time of SIGTERM, ms. */
  readonly atMs: number;
  /** The time of SIGKILL, ms. */
  readonly killedAtMs: number | undefined;
}

/** Waits for writers and ends all other processes. */
export async function endLeftovers(options: LeftoverOptions): Promise<LeftoversEnded> {
  /** What the previous look found. */
  let seen: ReadonlySet<number> = new Set();
  let told: ReadonlyMap<number, Told> = new Map();
  /** Of those who may still end, the one that was told first. */
  let eldest: Told | undefined;
  let writersStoppedAtMs: number | undefined;
  for (;;) {
    const nowMs = clockMs();
    const mayWrite = nowMs < options.writersUntilMs();
    const members = options.members();
    const elsewhere = mayWrite ? processesElsewhere(options) : [];
    // oxlint-disable-next-line no-await-in-loop -- look after look
    const writers = await options.writers.among([...members, ...elsewhere]);
    let isTasksOwn: ((group: number) => boolean) | undefined;
    const isStuck = ({ killedAtMs }: Told): boolean => nowMs - (killedAtMs ?? nowMs) >= AFTER_SIGKILL_MS;
    const left = new Map<number, Told>();
    for (const pid of members) {
      // Whatever a process starts has no more time than itself: else a chain of forks would never be killed.
      const parent = seen.has(pid) ? undefined : eldest;
      const before = told.get(pid);
      const one = before ?? parent ?? { atMs: nowMs, killedAtMs: undefined };
      if (mayWrite && writers.has(pid)) {
        if (before !== undefined) left.set(pid, before);
        continue;
      }
      if (before === undefined) {
        if (writers.has(pid)) writersStoppedAtMs ??= nowMs;
        terminate(pid);
      }
      const isDue = nowMs >= Math.min(one.atMs + KILL_AFTER_MS, options.killAtMs() ?? Infinity);
      if (isDue) {
        isTasksOwn ??= writers.size === 0 ? groupsOfTask() : () => false;
        kill(pid, isTasksOwn);
      }
      left.set(pid, { ...one, killedAtMs: one.killedAtMs ?? (isDue ? nowMs : undefined) });
    }
    const stuck = [...left].flatMap(([pid, one]) => (isStuck(one) ? [pid] : []));
    const othersWrite = elsewhere.some((pid) => writers.has(pid));
    if (stuck.length === members.length && !othersWrite) return { stuck, writersStoppedAtMs };
    seen = new Set(members);
    told = left;
    eldest = [...left.values()].filter((one) => !isStuck(one)).toSorted(byTime)[0];
    // oxlint-disable-next-line no-await-in-loop -- look after look
    await options.change(LOOK_EVERY_MS);
  }
}

function byTime(one: Told, other: Told): number {
  return one.atMs - other.atMs;
}

/** The warning about processes that could not be ended. */
export function describeStuck(pids: readonly number[]): string {
  const what = `${pids.length === 1 ? '1 process' : `${pids.length} processes`} of the task (${pids.join(', ')})`;
  return `${what} cannot be ended, not even by SIGKILL; the final scan goes on without waiting`;
}

/** A stopped process receives SIGTERM only when it continues. */
function terminate(pid: number): void {
  sendSignal(pid, 'SIGTERM');
  sendSignal(pid, 'SIGCONT');
}

/**
 * With all of its group, if nobody else is in that and no writer: who forks faster than we look escapes a signal to one
 * process, and none to a group (fork(2) fails while a signal for the group is pending).
 */
function kill(pid: number, isTasksOwn: (group: number) => boolean): void {
  const group = readStat(pid)?.group ?? 0;
  sendSignal(isTasksOwn(group) ? -group : pid, 'SIGKILL');
}

/**
 * Tells which process groups hold only processes below us. A process of the task can join any group of its session
 * (setpgid(2)), also one of a user whom it may not signal. One whose parent has gone meanwhile is taken for the task's.
 */
function groupsOfTask(): (group: number) => boolean {
  const table = processTable();
  const isForeign = (pid: number): boolean => {
    if (pid === process.pid) return false;
    const parent = table.get(pid)?.parent;
    // 0: the parent of the first process of a PID namespace, and of what comes from outside of it.
    return pid === 0 || (parent !== undefined && isForeign(parent));
  };
  const foreign = new Set([...table].flatMap(([pid, { group }]) => (isForeign(pid) ? [group] : [])));
  const own = table.get(process.pid)?.group;
  // 0: the group of a process outside of our namespace.
  return (group) => group > 1 && group !== own && !foreign.has(group);
}

/**
 * Processes with the token of this run that are not descendants of the launcher: a daemon started them for the task (a
 * job step, a container). The launcher waits while they write, and never signals them: a job that the task has
 * submitted carries the token too.
 */
function processesElsewhere(options: LeftoverOptions): readonly number[] {
  return processesWithEnvironment(`CAPTURED_RUN=${options.runToken}`).filter((pid) => pid !== process.pid);
}

export interface HeldWorkdir extends WorkDir {
  close(): void;
}

/** Opened before the task starts: the task may move the directory, or create another one of its name. */
export function holdWorkdir(path: string): HeldWorkdir {
  const fd = fs.openSync(encodePath(path), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  return { fd, path, close: () => fs.closeSync(fd) };
}
