// What stays in a scratch directory, and what is removed. Names decide, because a killed runner cannot report anything:
// what failed, and what may exist nowhere else, has a name that says so.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { ATTEMPT_FILE, FRESH_FILE, LOCK_FILE, OWN_DIR, SAVED_FILE } from '../model/file/manifest.ts';
import { showPath } from '../model/path.ts';
import { isEmptyDirectory } from '../native/directory-entries.ts';
import { type DirectoryUse, useOfDirectory } from '../native/directory-use.ts';
import { tryLock } from '../native/files.ts';
import {
  type holdPrivateDir,
  inPrivateDir,
  openPrivateFile,
  readPrivateFile,
} from '../native/private-dir.ts';
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
 * Whether nothing is lost with the directory: the sidecar has marked it as saved, no task has begun in it, or nothing is
 * there. Reads marks, because the launcher, or this runner, may have been killed. The task may have removed them, or
 * closed the directory to us: whatever cannot be read, or is missing, counts as unsaved.
 */
export function isSurelyStored(workdir: string): boolean {
  try {
    return inPrivateDir(workdir, (at) => isEmptyDirectory(at) || has(at, SAVED_FILE) || has(at, FRESH_FILE));
  } catch (error) {
    return errnoOf(error) === 'ENOENT'; // the task has removed it
  }
}

function has(workdir: string, mark: string): boolean {
  const fd = unlessMissing(() => openPrivateFile(`${workdir}/${OWN_DIR}`, mark, fs.constants.O_RDONLY));
  if (fd !== undefined) fs.closeSync(fd);
  return fd !== undefined;
}

function unlessMissing<T>(open: () => T): T | undefined {
  try {
    return open();
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return undefined;
  }
}

/**
 * Whether a sidecar, or a process of a task, still works in one of the directories: runners and launchers may be gone.
 * `sinceTicks`: see {@link useOfDirectory}.
 */
export async function useOf({ at, fd }: HeldDir, root: string, sinceTicks: number): Promise<DirectoryUse> {
  const environment = new Set<string>();
  let isSure = true;
  for await (const { name } of await fs.promises.opendir(at)) {
    if (!TASK_DIR.test(name)) continue;
    const own = `${at}/${name}/${OWN_DIR}`;
    try {
      if (isLocked(own)) return 'some';
      if (!has(`${at}/${name}`, ATTEMPT_FILE)) continue; // no task has begun there, or it has removed the file
      const token = /"runToken":"([\w-]+)"/.exec(readPrivateFile(own, ATTEMPT_FILE) ?? '')?.[1];
      if (token !== undefined) environment.add(`CAPTURED_RUN=${token}`);
      // Its processes cannot be told by their token.
      else isSure = false;
    } catch {
      isSure = false;
    }
  }
  const use = await useOfDirectory({ dir: { fd, path: root }, environment, sinceTicks });
  return use === 'none' && !isSure ? 'doubt' : use;
}

/** False if no sidecar has begun there. */
function isLocked(own: string): boolean {
  const fd = unlessMissing(() => openPrivateFile(own, LOCK_FILE, fs.constants.O_RDWR));
  if (fd === undefined) return false;
  try {
    return !tryLock(fd);
  } finally {
    fs.closeSync(fd);
  }
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
    const isAtRisk = isWork(`${at}/${dir}`) && !isSurelyStored(`${at}/${dir}`);
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

/** A work directory; a task may have given its own another name. */
function isWork(inside: string): boolean {
  const name = path.basename(inside);
  if ([UNSAVED, FAILED, DONE].some((mark) => name.includes(mark))) return false;
  if (TASK_DIR.test(name)) return true;
  try {
    fs.lstatSync(`${inside}/${OWN_DIR}`);
    return true;
  } catch (error) {
    return !['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '');
  }
}

/** For messages. A log may be that of another index. */
export function taskIn(dir: string): string {
  const [, index] = TASK_DIR.exec(dir) ?? [];
  return index === undefined || index === NO_INDEX ? 'a task' : `index ${index}`;
}

/** Removes only the empty directory that we created: another one may have its name by now. */
export function removeRoot(root: string): void {
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
    if (!name.endsWith(FAILED) || !isSurelyStored(`${at}/${name}`)) continue;
    const shown = path.join(root, name);
    if (await isRemoved(`${at}/${name}`, shown, log)) removed.push(shown);
  }
  return removed;
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
