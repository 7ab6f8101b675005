// Whether a process may still use a directory, whatever is in its environment: from proc_pid_cwd(5), proc_pid_root(5),
// proc_pid_exe(5), proc_pid_fd(5), proc_pid_maps(5) and proc_pid_mountinfo(5). Never takes a process that it may not look
// into for one that has nothing to do with it.
import fs from 'node:fs';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { processIds, readProc, readStat } from './processes.ts';

/** `doubt`: none was found, but one of our user's may be at work there, and cannot be looked into. */
export type DirectoryUse = 'none' | 'some' | 'doubt';

export interface Sought {
  /** Of the directory. No other directory has it, so it is found in whatever path a mount namespace gives it. */
  readonly name: string;
  /** `NAME=value`: whoever was started with one of them uses it, too. */
  readonly environment: ReadonlySet<string>;
  /** Clock ticks since boot. A process that was at work before cannot have come from there. */
  readonly sinceTicks: number;
}

/** Processes that are looked into before other work has its turn: some 100 us each. */
const AT_ONCE = 16;
/**
 * A process of several threads that is ending cannot be looked into for some milliseconds. One that cannot be after
 * so many pauses is not ending.
 */
const PAUSES_MS = [10, 20, 50, 100, 200, 500];

/** Looks into all processes but our own. Those of other users that are hidden from us count as none. */
export async function useOfDirectory(sought: Sought): Promise<DirectoryUse> {
  const seen = new Set<number>();
  let doubtful = new Set<number>();
  const pauses = PAUSES_MS.values();
  for (;;) {
    // A process may fork and end just before it is looked into: then its child is new.
    const pids = processIds().filter((pid) => !seen.has(pid) || doubtful.has(pid));
    const isNoneNew = pids.every((pid) => seen.has(pid));
    doubtful = new Set();
    for (const pid of pids) {
      seen.add(pid);
      const use = pid === process.pid ? 'none' : useBy(pid, sought);
      if (use === 'some') return use;
      if (use === 'doubt') doubtful.add(pid);
      // oxlint-disable-next-line no-await-in-loop -- the pause
      if (seen.size % AT_ONCE === 0) await nextTurn();
    }
    if (!isNoneNew) continue;
    if (doubtful.size === 0) break;
    const { value: pauseMs } = pauses.next();
    if (pauseMs === undefined) return 'doubt';
    // oxlint-disable-next-line no-await-in-loop -- the pause
    await sleep(pauseMs);
  }
  // Without /proc nothing is known.
  return seen.has(process.pid) ? 'none' : 'doubt';
}

function useBy(pid: number, { name, environment, sinceTicks }: Sought): DirectoryUse {
  const isThere = (text: string | undefined): boolean => text?.includes(`/${name}`) ?? false;
  try {
    const cwd = linkOf(pid, 'cwd');
    // It ends; or only its main thread has ended, and says nothing about the others.
    if (cwd === undefined) return (readStat(pid)?.threads ?? 0) > 1 ? doubtOf(pid, sinceTicks) : 'none';
    const isOurs =
      isThere(cwd) ||
      textOf(pid, 'environ')
        .split('\0')
        .some((one) => environment.has(one)) ||
      ['root', 'exe'].some((link) => isThere(linkOf(pid, link))) ||
      unlessGone(() => fs.readdirSync(`/proc/${pid}/fd`))?.some((fd) => isThere(linkOf(pid, `fd/${fd}`))) ||
      isThere(textOf(pid, 'maps')) ||
      mountedIn(pid).some(isThere);
    return isOurs ? 'some' : 'none';
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return doubtOf(pid, sinceTicks);
  }
}

/** What is mounted, as paths in the mounted file systems: a bind mount shows the directory by another path. */
function mountedIn(pid: number): readonly (string | undefined)[] {
  return textOf(pid, 'mountinfo')
    .split('\n')
    .map((line) => line.split(' ')[3]);
}

/** A process of our user that may not be looked into: not dumpable (prctl(2)), or its program cannot be read. */
function doubtOf(pid: number, sinceTicks: number): DirectoryUse {
  const ids =
    /^Uid:(.*)$/m
      .exec(readProc(pid, 'status') ?? '')?.[1]
      ?.trim()
      .split(/\s+/) ?? [];
  const isOurs = ids.includes(String(process.geteuid?.()));
  return isOurs && (readStat(pid)?.startTicks ?? 0) >= sinceTicks ? 'doubt' : 'none';
}

/** Undefined if there is none. Throws EACCES if we may not look. */
function linkOf(pid: number, name: string): string | undefined {
  return unlessGone(() => fs.readlinkSync(`/proc/${pid}/${name}`, 'latin1'));
}

/** One character for each byte; empty if the process is gone. Throws EACCES if we may not look. */
function textOf(pid: number, name: string): string {
  return unlessGone(() => fs.readFileSync(`/proc/${pid}/${name}`, 'latin1')) ?? '';
}

function unlessGone<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch (error) {
    // EINVAL: it has left its mount namespace, as the last of all.
    if (!['ENOENT', 'ESRCH', 'EINVAL'].includes(errnoOf(error) ?? '')) throw error;
    return undefined;
  }
}

/** Identifies our PID namespace for as long as a process of it lives; undefined if /proc does not tell. */
export function pidNamespace(): string | undefined {
  try {
    return fs.readlinkSync('/proc/self/ns/pid');
  } catch {
    return undefined;
  }
}
