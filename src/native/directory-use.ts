// Whether a process may still use a directory, whatever is in its environment: from proc_pid_cwd(5), proc_pid_root(5),
// proc_pid_exe(5), proc_pid_fd(5), proc_pid_maps(5) and proc_pid_mountinfo(5). Never takes a process that it may not look
// into for one that has nothing to do with it. The kernel names what a process uses by its path; another user may give a
// directory of theirs the same name, and any variable to their processes. So of theirs only the file itself counts.
import fs from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { O_PATH, type WorkDir } from './beneath.ts';
import { FileSystems, isMountedFor, type Place, placeOf } from './mounts.ts';
import { processIds, readProc, readStat } from './processes.ts';

/** `doubt`: none was found, but one of our user's may be at work there, and cannot be looked into. */
export type DirectoryUse = 'none' | 'some' | 'doubt';

export interface Sought {
  /** Closed to other users. Its name is found in whatever path a mount namespace gives it. */
  readonly dir: WorkDir;
  /** `NAME=value`: a process of our user that was started with one of them uses it, too. */
  readonly environment: ReadonlySet<string>;
  /** Clock ticks since boot. A process that was at work before cannot have come from there. */
  readonly sinceTicks: number;
}

/** Of the directory, for processes of other users. */
interface Look extends Sought {
  readonly place: Place | undefined;
  readonly near: FileSystems;
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
  const look: Look = { ...sought, place: placeOf(sought.dir.fd), near: new FileSystems(sought.dir) };
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
      const use = pid === process.pid ? 'none' : useBy(pid, look);
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

function useBy(pid: number, look: Look): DirectoryUse {
  try {
    // It ends; or only its main thread has ended, and says nothing about the others.
    if (linkOf(pid, 'cwd') === undefined)
      return (readStat(pid)?.threads ?? 0) > 1 ? doubtOf(pid, look.sinceTicks) : 'none';
    return (isOfOurUser(pid) ? isUsedBy : isUsedByOther)(pid, look) ? 'some' : 'none';
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return doubtOf(pid, look.sinceTicks);
  }
}

/** As it is in the paths that the kernel tells. */
const nameOf = (dir: WorkDir): string => `/${path.basename(dir.path)}`;

function isUsedBy(pid: number, { dir, environment }: Sought): boolean {
  const isThere = (text: string | undefined): boolean => text?.includes(nameOf(dir)) ?? false;
  return (
    isThere(linkOf(pid, 'cwd')) ||
    textOf(pid, 'environ')
      .split('\0')
      .some((one) => environment.has(one)) ||
    linksOf(pid).some((link) => isThere(linkOf(pid, link))) ||
    isThere(textOf(pid, 'maps')) ||
    mountedIn(pid).some(isThere)
  );
}

/**
 * One of another user cannot enter the directory, but our user's process may have become it (su) while it had something
 * there.
 */
function isUsedByOther(pid: number, look: Look): boolean {
  if (look.place !== undefined && isMountedFor(pid, look.place)) return true;
  return ['cwd', ...linksOf(pid), ...mappedIn(pid, look)].some((link) => leadsInto(look, pid, link));
}

function linksOf(pid: number): readonly string[] {
  const open = unlessGone(() => fs.readdirSync(`/proc/${pid}/fd`)) ?? [];
  return ['root', 'exe', ...open.map((fd) => `fd/${fd}`)];
}

/** The links to what is mapped from a directory of that name (proc_pid_map_files(5)). */
function mappedIn(pid: number, { dir }: Sought): readonly string[] {
  return textOf(pid, 'maps')
    .split('\n')
    .filter((line) => line.includes(nameOf(dir)))
    .map((line) => `map_files/${line.replace(/ .*/, '').replaceAll(/\b0+(?=\w)/g, '')}`);
}

/**
 * Whether a link of the process leads to the same file as the same name in the directory. Asks no other file system: that
 * of another user may not answer.
 */
function leadsInto({ dir, near }: Look, pid: number, link: string): boolean {
  const [, ...rest] = linkOf(pid, link)?.split(nameOf(dir)) ?? [];
  if (rest.length === 0) return false;
  const inside = `/proc/self/fd/${dir.fd}/.${rest.join(nameOf(dir))}`;
  const own = unlessGone(() => fs.lstatSync(Buffer.from(inside, 'latin1'), { bigint: true }));
  const held = own && unlessGone(() => fs.openSync(`/proc/${pid}/${link}`, O_PATH));
  if (own === undefined || held === undefined) return false;
  try {
    if (near.have(pid, readProc(process.pid, `fdinfo/${held}`) ?? '') !== true) return false;
    const { dev, ino } = fs.fstatSync(held, { bigint: true });
    return dev === own.dev && ino === own.ino;
  } finally {
    fs.closeSync(held);
  }
}

/** By its real user: that of a program with set-user-ID is the one who has called it. */
function isOfOurUser(pid: number): boolean {
  return [process.geteuid?.(), process.getuid?.()].map(String).includes(usersOf(pid)[0] ?? '');
}

/** The real, effective, saved and file system user (proc_pid_status(5)). */
function usersOf(pid: number): readonly string[] {
  const [, users = ''] = /^Uid:(.*)$/m.exec(readProc(pid, 'status') ?? '') ?? [];
  return users.trim().split(/\s+/);
}

/** What is mounted, as paths in the mounted file systems: a bind mount shows the directory by another path. */
function mountedIn(pid: number): readonly (string | undefined)[] {
  return textOf(pid, 'mountinfo')
    .split('\n')
    .map((line) => line.split(' ')[3]);
}

/** A process of our user that may not be looked into: not dumpable (prctl(2)), or its program cannot be read. */
function doubtOf(pid: number, sinceTicks: number): DirectoryUse {
  const isOurs = usersOf(pid).includes(String(process.geteuid?.()));
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
