// What stays in a scratch directory, and what is removed. Names decide, because a killed runner cannot report anything:
// what failed, and what may exist nowhere else, has a name that says so.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { ATTEMPT_FILE, LOCK_FILE, OWN_DIR, SAVED_FILE } from '../model/file/manifest.ts';
import { showPath } from '../model/path.ts';
import { isEmptyDirectory } from '../native/directory-entries.ts';
import { tryLock } from '../native/files.ts';
import { holdPrivateDir, openPrivateFile, readPrivateFile } from '../native/private-dir.ts';
import { processesWithEnvironment } from '../native/processes.ts';
import { emptyDirectory, removeTree } from '../native/remove-tree.ts';

export type HeldDir = ReturnType<typeof holdPrivateDir>;

/** The name of each scratch directory begins with it. */
export const PREFIX = 'capture-work.';
export const LOCK = 'lock';
/** Suffix of a directory whose files may exist nowhere else. */
const UNSAVED = '.unsaved-';
/** Explains to the user why such a directory stays. */
export const UNSAVED_HINT =
  'copy what you need out of it, then delete it; in memory (/dev/shm) it takes memory, and is lost with the machine';
/** Suffix of what a failed task left: its directory and its log. */
export const FAILED = '.failed';
/** In place of the index, in the name of the directory of a task that has none. */
export const NO_INDEX = 'task';
/** The name of a task's work directory while it is in use. */
const TASK_DIR = new RegExp(`^(\\d+|${NO_INDEX})(?:-\\d+)?$`);

/**
 * Reads the sidecar's marks in the directory, because the launcher, or this runner, may have been killed. The task may
 * have removed them: then whatever is there counts as unsaved. A start whose task has not begun leaves its lock file.
 */
export function isUnsaved(workdir: string): boolean {
  const has = (name: string): boolean => fs.existsSync(path.join(workdir, OWN_DIR, name));
  if (has(SAVED_FILE)) return false;
  return has(ATTEMPT_FILE) || (!has(LOCK_FILE) && !isEmpty(workdir));
}

function isEmpty(workdir: string): boolean {
  try {
    return isEmptyDirectory(workdir);
  } catch {
    return true; // the task has removed it
  }
}

/** Whether a sidecar, or a process of a task, still works in one of the directories: runners and launchers may be gone. */
export async function isAtWork({ at }: HeldDir): Promise<boolean> {
  for await (const { name } of await fs.promises.opendir(at)) {
    const own = `${at}/${name}/${OWN_DIR}`;
    if (TASK_DIR.test(name) && (isLocked(own) || runsOn(own))) return true;
  }
  return false;
}

function isLocked(own: string): boolean {
  let fd: number;
  try {
    fd = openPrivateFile(own, LOCK_FILE, fs.constants.O_RDWR);
  } catch {
    return false; // no sidecar has begun there
  }
  try {
    return !tryLock(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** Whether a process of the task has outlived its launcher and its sidecar. */
function runsOn(own: string): boolean {
  const token = /"runToken":"([\w-]+)"/.exec(readPrivateFile(own, ATTEMPT_FILE) ?? '')?.[1];
  return token !== undefined && processesWithEnvironment(`CAPTURED_RUN=${token}`).length > 0;
}

/** In the name of a directory that is being removed: it is no task's any more. */
export const DONE = '.done-';

export function setAside(dir: string): readonly string[] {
  let n = 1;
  while (fs.existsSync(`${dir}${UNSAVED}${n}`)) n += 1;
  return moved(dir, `${dir}${UNSAVED}${n}`);
}

/** Renames a work directory and its log. Returns the new names of those that exist. */
export function moved(from: string, to: string): readonly string[] {
  return ['', '.log'].flatMap((end) => {
    try {
      fs.renameSync(from + end, to + end);
      return to + end;
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT') throw error;
      return [];
    }
  });
}

/** What becomes of a directory that no sidecar has marked as saved: removed, set aside, or left to a later sweep. */
export type UnsavedFate = 'stored' | 'aside' | 'later';

/** `inside`: the path through the open directory. `name` is that of a task's work directory. */
export type FateOf = (inside: string, name: string) => Promise<UnsavedFate>;

export const SET_ASIDE: FateOf = async () => 'aside';

/** The lock goes last: without it nobody would clean up the rest. */
export async function removeRest(
  { at }: HeldDir,
  root: string,
  log: Pick<Log, 'warn'>,
  fateOf = SET_ASIDE,
): Promise<void> {
  let keepsSome = false;
  let isDone = true;
  for await (const { name } of await fs.promises.opendir(at)) {
    // The log goes with its directory, whichever of them readdir returns first.
    const dir = name.replace(/\.log$/, '');
    const isAtRisk = TASK_DIR.test(dir) && isUnsaved(`${at}/${dir}`);
    const fate = isAtRisk ? await fateOf(`${at}/${dir}`, dir) : undefined;
    if (fate === 'later') {
      isDone = false;
      continue;
    }
    if (fate === 'stored') {
      // If a rest stays, its name says that it is no task's any more.
      for (const gone of moved(`${at}/${dir}`, `${at}/${dir}${DONE}${randomUUID()}`))
        if (!(await isRemoved(gone, path.join(root, path.basename(gone)), log))) isDone = false;
      continue;
    }
    const [aside] = fate === 'aside' ? setAside(`${at}/${dir}`) : [];
    if (aside !== undefined)
      log.warn(
        `what ${taskIn(dir)} of a run that was killed may not have stored stays in ${showPath(path.join(root, path.basename(aside)))}`,
        { hint: UNSAVED_HINT },
      );
    if (aside !== undefined || name.includes(UNSAVED) || name.includes(FAILED)) keepsSome = true;
    else if (name !== LOCK && !(await isRemoved(`${at}/${name}`, path.join(root, name), log))) isDone = false;
  }
  // The next runner tries again.
  if (!isDone) return;
  if (!keepsSome) await emptyDirectory(at);
  await removeTree(`${at}/${LOCK}`);
  if (!keepsSome) removeRoot(root);
}

/** For messages. A log may be that of another index. */
export function taskIn(dir: string): string {
  const [, index] = TASK_DIR.exec(dir) ?? [];
  return index === undefined || index === NO_INDEX ? 'a task' : `index ${index}`;
}

/** Removes only the empty directory that we created: another one may have its name by now. */
function removeRoot(root: string): void {
  try {
    fs.rmdirSync(root);
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR', 'ENOTEMPTY'].includes(errnoOf(error) ?? '')) throw error;
  }
}

/**
 * Removes the directories of failed tasks from which all that was closed is stored; their logs stay. Resolves to their
 * names.
 */
export async function makeRoom(
  { at }: HeldDir,
  root: string,
  log: Pick<Log, 'warn'>,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for await (const { name } of await fs.promises.opendir(at)) {
    if (!name.endsWith(FAILED) || isUnsaved(`${at}/${name}`)) continue;
    const shown = path.join(root, name);
    if (await isRemoved(`${at}/${name}`, shown, log)) removed.push(shown);
  }
  return removed;
}

/**
 * Removes what runners of our user have kept below `base` of this index when it had failed, except for files that are
 * stored nowhere else. `isOf` says from the kept log whether it is the log of this index of this array.
 */
export async function removeKept(base: string, index: number, isOf: (log: string) => boolean): Promise<void> {
  const logName = new RegExp(`^${index}(?:-\\d+)?${FAILED.replace('.', '\\.')}\\.log$`);
  for await (const { name: root } of await fs.promises.opendir(base)) {
    if (!root.startsWith(PREFIX)) continue;
    let held: HeldDir;
    try {
      held = holdPrivateDir(path.join(base, root));
    } catch {
      continue; // another user's, or removed meanwhile
    }
    try {
      for await (const { name } of await fs.promises.opendir(held.at)) {
        const [log, dir] = [`${held.at}/${name}`, `${held.at}/${name.slice(0, -'.log'.length)}`];
        if (!logName.test(name) || !isOf(log) || isUnsaved(dir)) continue;
        await removeTree(dir);
        await removeTree(log);
      }
      removeRoot(path.join(base, root));
    } finally {
      held.close();
    }
  }
}

/** Warns if something of it cannot be removed. */
async function isRemoved(inside: string, shown: string, log: Pick<Log, 'warn'>): Promise<boolean> {
  try {
    await removeTree(inside);
    return true;
  } catch (error) {
    log.warn(`${showPath(shown)} cannot be removed: ${reasonOf(error)}`, { hint: 'remove it by hand' });
    return false;
  }
}
