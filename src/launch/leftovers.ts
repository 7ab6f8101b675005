// What the task leaves behind. The launcher becomes the parent of its orphans, and takes their exit statuses, so that no
// zombie stays. When the task's main process ends, a process that still writes a declared file is waited for; any other is
// ended, so that nothing spins on behind. Nothing is left when the final scan begins.
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
  /** Every living process of the task: all that descend from us, but the sidecar and what was there before. */
  members(sidecarPid: number | undefined): readonly number[];
  /** Resolves after the next child of ours has ended, or after `ms`. */
  change(ms: number): Promise<void>;
  /** What those that have ended have used. */
  readonly usage: Usage;
  close(): void;
}

/**
 * Adopts them from now on; to be called before anything is started. It never touches what we started ourselves: whoever
 * started it takes its status. `ownChildren` are the running children that we started ourselves; whoever starts one adds
 * it in the same turn of the event loop.
 */
export function adoptOrphans(ownChildren: ReadonlySet<number>): Orphans {
  // A shell that starts something in the background and then becomes capture leaves it as our child.
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
 * A process that SIGKILL does not end hangs in the kernel; then we go on without it. With the time before it less than
 * LATE_NEWS_MS (model/file/suspect.ts): what others were made to close must not pass for whole meanwhile.
 */
const KILLED_WAIT_MS = 4000;
/** Nothing tells us that a process closed a file: while one is waited for, we look this often. */
const LOOK_EVERY_MS = 100;

interface LeftoverOptions {
  /** Where the work directory stands now: the task may have moved it. */
  readonly workdir: () => string;
  readonly declared: Pick<Interest, 'wants'>;
  /** CAPTURED_RUN of this task. */
  readonly runToken: string;
  /** Living processes of the task. */
  readonly members: () => readonly number[];
  /** Resolves when a child has ended, or after so many ms. */
  readonly change: (ms: number) => Promise<void>;
  /** Until when writers are waited for, ms since the epoch; asked again and again, it may come nearer. */
  readonly writersUntilMs: () => number;
  /** From when on nothing is spared, ms since the epoch. */
  readonly killAtMs: () => number | undefined;
}

interface LeftoversEnded {
  /** Pids that could not be ended. */
  readonly stuck: readonly number[];
  /**
   * When the first process was told to end that had a declared file open for writing, ms since the epoch: what it
   * closed from then on proves nothing. Undefined: there was none.
   */
  readonly writersStoppedAtMs: number | undefined;
}

/** Waits for writers and ends the rest. */
export async function endLeftovers(options: LeftoverOptions): Promise<LeftoversEnded> {
  const asked = new Map<number, number>(); // pid -> when it got SIGTERM, ms
  const killed = new Map<number, number>(); // pid -> when it got SIGKILL, ms
  let writersStoppedAtMs: number | undefined;
  for (;;) {
    const nowMs = clockMs();
    const mayWrite = nowMs < options.writersUntilMs();
    const members = options.members();
    for (const pid of members) {
      if (mayWrite && writesDeclared(pid, options)) continue;
      const askedAtMs = asked.get(pid);
      if (askedAtMs === undefined) {
        if (!mayWrite && writesDeclared(pid, options)) writersStoppedAtMs ??= nowMs;
        askToEnd(pid);
      }
      asked.set(pid, askedAtMs ?? nowMs);
      if (nowMs >= Math.min((askedAtMs ?? nowMs) + KILL_AFTER_MS, options.killAtMs() ?? Infinity)) {
        sendSignal(pid, 'SIGKILL');
        killed.set(pid, killed.get(pid) ?? nowMs);
      }
    }
    const stuck = members.filter((pid) => nowMs - (killed.get(pid) ?? nowMs) >= KILLED_WAIT_MS);
    const othersWrite = mayWrite && elsewhere(options).some((pid) => writesDeclared(pid, options));
    if (stuck.length === members.length && !othersWrite) return { stuck, writersStoppedAtMs };
    await options.change(LOOK_EVERY_MS);
  }
}

/** The warning about processes that could not be ended. */
export function describeStuck(pids: readonly number[]): string {
  const what = `${pids.length === 1 ? '1 process' : `${pids.length} processes`} of the task (${pids.join(', ')})`;
  return `${what} cannot be ended, not even by SIGKILL; the final scan goes on without waiting`;
}

/** A stopped process only sees SIGTERM when it goes on. */
function askToEnd(pid: number): void {
  sendSignal(pid, 'SIGTERM');
  sendSignal(pid, 'SIGCONT');
}

/**
 * Processes that carry our token and do not descend from us: a daemon started them for the task (a job step,
 * a container). They are waited for while they write and never signalled: a job that the task has submitted
 * carries the token too.
 */
function elsewhere(options: LeftoverOptions): readonly number[] {
  return processesWithEnvironment(`CAPTURED_RUN=${options.runToken}`).filter((pid) => pid !== process.pid);
}

/** Has this process a declared file open for writing, or mapped so (proc_pid_fdinfo(5), proc_pid_maps(5))? */
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
    return []; // closed meanwhile
  }
}

export interface HeldWorkdir {
  /** The real path; of a directory that the task has removed, one at which nothing stands. */
  now(): string;
  close(): void;
}

/** Held open from before the task starts: the task may move the directory, or make another one of its name. */
export function holdWorkdir(path: string): HeldWorkdir {
  const fd = fs.openSync(encodePath(path), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  return { now: () => currentPath(fd), close: () => fs.closeSync(fd) };
}
