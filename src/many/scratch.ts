// The work directories of the tasks, one for each index, in memory (tmpfs) if there is room. What is durable is removed;
// what failed stays, with its log, under a name that says so. What a runner that was killed has left is removed by the
// next one, but for that and what no sidecar has called saved: its lock is free once the last process of it is gone.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { ATTEMPT_FILE, IN_VAIN, OWN_DIR, SAVED_FILE } from '../model/file/manifest.ts';
import { encodePath, showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import { tryLock } from '../native/files.ts';
import { mountOf } from '../native/mounts.ts';
import { makePrivateFile, openPrivateFile, readPrivateFile } from '../native/private-dir.ts';

const SHARED_MEMORY = '/dev/shm';
/** For each task that runs at once: tmpfs takes its memory from them. */
const ROOM_BYTES = 512 * 2 ** 20;
const PREFIX = 'capture-array.';
const LOCK = 'lock';
/** What such a directory holds is nowhere else. */
const UNSAVED = '.unsaved-';
/** For whoever reads that such a directory stays. */
export const UNSAVED_HINT =
  'copy what you need out of it, then delete it; in memory (/dev/shm) it takes memory, and is lost with the machine';
/** What a failed task has left: its directory, and what it wrote. */
const FAILED = '.failed';

export interface Scratch {
  readonly root: string;
  /** `in /dev/shm/capture-array.x (memory, 15.2 GiB free)` */
  readonly words: string;
  /** Locked as long as anybody has it open: each launcher gets it. */
  readonly lockFd: number;
  workdirOf(index: number): string;
  logOf(index: number): string;
  /** An empty work directory. */
  prepare(index: number): Promise<void>;
  /** Nothing of the index is needed any more. */
  remove(index: number): Promise<void>;
  /** A task began there, and nobody has said that all it closed is stored: it may be nowhere else. */
  isUnsaved(index: number): boolean;
  /** Its sidecar has said that a further attempt would end the same way. */
  isInVain(index: number): boolean;
  /** What is there stays, also after the end. Returns the names that it has from now on. */
  keep(index: number): readonly string[];
  /** Its next try must not remove what is there: only there it is. Undefined: the task has removed it. */
  setAside(index: number): string | undefined;
  /** Removes all but what is kept, which no later runner removes either. */
  close(): Promise<void>;
}

export interface ScratchNeeds {
  readonly tasksAtOnce: number;
  readonly availableBytes: number;
  readonly log: Pick<Log, 'warn'>;
}

export async function openScratch(
  dir: string | undefined,
  { tasksAtOnce, availableBytes, log }: ScratchNeeds,
): Promise<Scratch> {
  const inMemory = dir === undefined && hasRoom(tasksAtOnce * ROOM_BYTES, availableBytes);
  const base = dir ?? (inMemory ? SHARED_MEMORY : os.tmpdir());
  try {
    await removeAbandoned(base, log);
    const root = fs.mkdtempSync(path.join(base, PREFIX));
    return scratchIn(root, { lockFd: lock(root), inMemory, log });
  } catch (error) {
    throw new CaptureError(
      EXIT.usage,
      `cannot make work directories below ${showPath(base)}: ${reasonOf(error)}`,
      {
        hint: 'name a directory that exists and can be written with --scratch',
        cause: error,
      },
    );
  }
}

/** Programs must run there: many containers forbid it. */
function hasRoom(neededBytes: number, availableBytes: number): boolean {
  try {
    const mount = mountOf(fs.realpathSync(SHARED_MEMORY));
    fs.accessSync(SHARED_MEMORY, fs.constants.W_OK | fs.constants.X_OK);
    const isUsable = mount?.type === 'tmpfs' && !mount.options.includes('noexec');
    // More than half of the memory that is left would be missed by the tasks.
    return isUsable && Math.min(freeBytes(SHARED_MEMORY), availableBytes / 2) >= neededBytes;
  } catch {
    return false;
  }
}

/** Renamed once it is locked: nobody finds it unlocked. */
function lock(root: string): number {
  const fd = makePrivateFile(root, 'lock.new');
  tryLock(fd);
  fs.renameSync(path.join(root, 'lock.new'), path.join(root, LOCK));
  return fd;
}

interface Opened extends Pick<ScratchNeeds, 'log'> {
  readonly lockFd: number;
  readonly inMemory: boolean;
}

function scratchIn(root: string, { lockFd, inMemory, log }: Opened): Scratch {
  const workdirOf = (index: number): string => path.join(root, String(index));
  const logOf = (index: number): string => path.join(root, `${index}.log`);
  return {
    root,
    words: `${root}${inMemory ? ` (memory, ${formatBytes(freeBytes(root))} free)` : ''}`,
    lockFd,
    workdirOf,
    logOf,
    prepare: async (index) => {
      await removeAll(workdirOf(index));
      fs.mkdirSync(workdirOf(index), { mode: 0o700 });
    },
    remove: async (index) => {
      await removeAll(workdirOf(index));
      await removeAll(logOf(index));
    },
    isUnsaved: (index) => isUnsaved(workdirOf(index)),
    isInVain: (index) => isInVain(workdirOf(index)),
    keep: (index) => {
      const kept = path.join(root, `${index}${FAILED}`);
      return [moved(workdirOf(index), kept), moved(logOf(index), `${kept}.log`)].filter(
        (name) => name !== undefined,
      );
    },
    setAside: (index) => setAside(workdirOf(index)),
    close: async () => {
      await removeRest(root, log);
      fs.closeSync(lockFd);
    },
  };
}

/** The sidecar says so itself, in the directory: its launcher, or we, may have been killed. */
function isUnsaved(workdir: string): boolean {
  const has = (name: string): boolean => fs.existsSync(path.join(workdir, OWN_DIR, name));
  return has(ATTEMPT_FILE) && !has(SAVED_FILE);
}

function isInVain(workdir: string): boolean {
  return readPrivateFile(path.join(workdir, OWN_DIR), SAVED_FILE) === IN_VAIN;
}

function setAside(workdir: string): string | undefined {
  let n = 1;
  while (fs.existsSync(`${workdir}${UNSAVED}${n}`)) n += 1;
  return moved(workdir, `${workdir}${UNSAVED}${n}`);
}

/** Its new name; undefined if it is not there. */
function moved(from: string, to: string): string | undefined {
  try {
    fs.renameSync(from, to);
    return to;
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return undefined;
  }
}

/** Names say what stays: a runner that is killed tells nobody. The lock goes last: without it none comes back for more. */
async function removeRest(root: string, log: Pick<Log, 'warn'>): Promise<void> {
  for (const name of fs.readdirSync(root).filter((one) => /^\d+$/.test(one))) {
    if (!isUnsaved(path.join(root, name))) continue;
    const aside = setAside(path.join(root, name));
    if (aside !== undefined)
      log.warn(`what a task that was killed may not have stored stays in ${showPath(aside)}`, {
        hint: UNSAVED_HINT,
      });
  }
  const names = fs.readdirSync(root);
  const kept = names.filter((name) => name.includes(UNSAVED) || name.includes(FAILED));
  for (const name of names.filter((one) => one !== LOCK && !kept.includes(one)))
    await removeAll(path.join(root, name));
  await removeAll(kept.length === 0 ? root : path.join(root, LOCK));
}

function freeBytes(dir: string): number {
  const { bavail, bsize } = fs.statfsSync(dir);
  return bavail * bsize;
}

function removeAll(target: string): Promise<void> {
  return fs.promises.rm(encodePath(target), { recursive: true, force: true });
}

/** Of our user's runners that were killed, and whose tasks have ended since. */
async function removeAbandoned(base: string, log: Pick<Log, 'warn'>): Promise<void> {
  for (const name of fs.readdirSync(base).filter((one) => one.startsWith(PREFIX))) {
    const root = path.join(base, name);
    try {
      const fd = openPrivateFile(root, LOCK, fs.constants.O_RDWR);
      if (tryLock(fd)) await removeRest(root, log);
      fs.closeSync(fd);
    } catch {
      // Another runner removes it as well; or nobody may.
    }
  }
}
