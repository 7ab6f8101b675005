// Processes that the task leaves behind. The launcher becomes the parent of its orphans and reaps them, so no zombie
// stays. After the task's main process has ended, the launcher waits for processes that still write a declared file,
// and ends all others. None is left when the final scan begins.
import fs from 'node:fs';
import type { Interest } from '../model/file/file-state.ts';
import type { Usage } from '../model/format/messages.ts';
import { decodePath, encodePath } from '../model/path.ts';
import { currentPath } from '../native/beneath.ts';
import { clockMs } from '../native/clock.ts';
import { reapChild } from '../native/ended.ts';
import { writableDescriptors } from '../native/open-files.ts';
import { childPids } from '../native/proc-reader.ts';
import {
  becomeSubreaper,
  descendants,
  processesWithEnvironment,
  readProc,
  sendSignal,
} from '../native/processes.ts';

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

/**
 * Adopts orphans from now on; call it before anything is started. It never reaps the launcher's own children: whoever
 * started one takes its status. `ownChildren`: these running children. Whoever starts one adds it in the same turn of
 * the event loop.
 */
export function adoptOrphans(ownChildren: ReadonlySet<number>): Orphans {
  // A shell that starts something in the background and then execs capture leaves it as the launcher's child.
  const before = childPids().filter((pid) => !ownChildren.has(pid));
  becomeSubreaper();
  const waiting = new Set<() => void>();
  let usage: Usage = { cpuS: 0, maxRssBytes: 0 };
  const reap = (): void => {
    for (const pid of childPids()) {
      if (!ownChildren.has(pid)) usage = usageOfBoth(usage, reapChild(pid)?.usage);
    }
    for (const wake of waiting) wake();
  };
  process.on('SIGCHLD', reap);
  return {
    members: (sidecarPid) => descendants(process.pid, new Set([...before, sidecarPid ?? 0])),
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
      process.removeListener('SIGCHLD', reap);
      for (const wake of waiting) wake();
    },
  };
}

export function usageOfBoth(one: Usage, other: Usage | undefined): Usage {
  if (other === undefined) return one;
  return {
    cpuS: one.cpuS + other.cpuS,
    maxRssBytes: Math.max(one.maxRssBytes, other.maxRssBytes),
  };
}

/** Between SIGTERM and SIGKILL. */
export const KILL_AFTER_MS = 5000;
/**
 * A process that survives SIGKILL hangs in the kernel; the launcher then continues without it. Together with the time
 * before it, this stays below WRAPPER_DELAY_MS (model/file/suspect.ts): files that a forced end closed must not count
 * as whole in the meantime.
 */
const AFTER_SIGKILL_MS = 4000;
/** No event tells that a process closed a file: while waiting for one, look this often. */
const LOOK_EVERY_MS = 100;

interface LeftoverOptions {
  /** The current path of the work directory: the task may have moved it. */
  readonly workdir: () => string;
  readonly declared: Pick<Interest, 'wants'>;
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
   * When the first process with a declared file open for writing was told to end, ms since the epoch: closes from then
   * on prove nothing. Undefined: there was none.
   */
  readonly writersStoppedAtMs: number | undefined;
}

/** Waits for writers and ends all other processes. */
export async function endLeftovers(options: LeftoverOptions): Promise<LeftoversEnded> {
  const terminatedAtMs = new Map<number, number>(); // pid -> time of SIGTERM, ms
  const killedAtMs = new Map<number, number>(); // pid -> time of SIGKILL, ms
  let writersStoppedAtMs: number | undefined;
  for (;;) {
    const nowMs = clockMs();
    const mayWrite = nowMs < options.writersUntilMs();
    const members = options.members();
    for (const pid of members) {
      if (mayWrite && writesDeclared(pid, options)) continue;
      const sinceMs = terminatedAtMs.get(pid);
      if (sinceMs === undefined) {
        if (!mayWrite && writesDeclared(pid, options)) writersStoppedAtMs ??= nowMs;
        terminate(pid);
      }
      terminatedAtMs.set(pid, sinceMs ?? nowMs);
      if (nowMs >= Math.min((sinceMs ?? nowMs) + KILL_AFTER_MS, options.killAtMs() ?? Infinity)) {
        sendSignal(pid, 'SIGKILL');
        killedAtMs.set(pid, killedAtMs.get(pid) ?? nowMs);
      }
    }
    const stuck = members.filter((pid) => nowMs - (killedAtMs.get(pid) ?? nowMs) >= AFTER_SIGKILL_MS);
    const othersWrite = mayWrite && processesElsewhere(options).some((pid) => writesDeclared(pid, options));
    if (stuck.length === members.length && !othersWrite) return { stuck, writersStoppedAtMs };
    await options.change(LOOK_EVERY_MS);
  }
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
 * Processes with the token of this run that are not descendants of the launcher: a daemon started them for the task (a
 * job step, a container). The launcher waits while they write, and never signals them: a job that the task has
 * submitted carries the token too.
 */
function processesElsewhere(options: LeftoverOptions): readonly number[] {
  return processesWithEnvironment(`CAPTURED_RUN=${options.runToken}`).filter((pid) => pid !== process.pid);
}

/** Does this process have a declared file open for writing, or mapped so (proc_pid_fdinfo(5), proc_pid_maps(5))? */
function writesDeclared(pid: number, options: LeftoverOptions): boolean {
  return writtenFiles(pid).some((file) => {
    const below = `${options.workdir()}/`;
    return file.startsWith(below) && options.declared.wants(file.slice(below.length));
  });
}

function writtenFiles(pid: number): readonly string[] {
  const open = writableDescriptors(pid).flatMap(({ link }) => linkTarget(link));
  const mapped = [...(readProc(pid, 'maps') ?? '').matchAll(/^\S+ .w.s (?:\S+ +){3}(\/.*)$/gm)].map((match) =>
    decodePath(Buffer.from(match[1] ?? '', 'latin1')),
  );
  return [...open, ...mapped];
}

function linkTarget(link: string): readonly string[] {
  try {
    const file = decodePath(fs.readlinkSync(link, { encoding: 'buffer' }));
    return file.endsWith(' (deleted)') ? [] : [file];
  } catch {
    return []; // closed since
  }
}

export interface HeldWorkdir {
  /** The real path. If the task has removed the directory, a path where nothing exists. */
  now(): string;
  close(): void;
}

/** Opened before the task starts: the task may move the directory, or create another one of its name. */
export function holdWorkdir(path: string): HeldWorkdir {
  const fd = fs.openSync(encodePath(path), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  return { now: () => currentPath(fd), close: () => fs.closeSync(fd) };
}
