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
import { showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import { whereabouts } from '../native/beneath.ts';
import { tryLock } from '../native/files.ts';
import { mountOf } from '../native/mounts.ts';
import { holdPrivateDir, makePrivateFile, openHeldFile, readPrivateFile } from '../native/private-dir.ts';
import { emptyDirectory, removeTree } from '../native/remove-tree.ts';

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
    return scratchIn(root, { held: hold(root), lockFd: lock(root), inMemory, log });
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

/** Others may rename it where they can write above it: all that we make, rename and remove below, is below this one. */
function hold(root: string): Held {
  const held = holdPrivateDir(root);
  if (fs.readdirSync(held.at).length === 0) return held;
  held.close();
  throw new Error(`somebody has put another directory in place of ${showPath(root)}`);
}

/** Renamed once it is locked: nobody finds it unlocked. */
function lock(root: string): number {
  const fd = makePrivateFile(root, 'lock.new');
  tryLock(fd);
  fs.renameSync(path.join(root, 'lock.new'), path.join(root, LOCK));
  return fd;
}

type Held = ReturnType<typeof holdPrivateDir>;

interface Opened extends Pick<ScratchNeeds, 'log'> {
  readonly held: Held;
  readonly lockFd: number;
  readonly inMemory: boolean;
}

function scratchIn(root: string, { held, lockFd, inMemory, log }: Opened): Scratch {
  const inside = (index: number): string => `${held.at}/${index}`;
  const shown = (name: string): string => path.join(root, path.basename(name));
  const workdirOf = (index: number): string => path.join(root, String(index));
  const logOf = (index: number): string => path.join(root, `${index}.log`);
  return {
    root,
    words: `${root}${inMemory ? ` (memory, ${formatBytes(freeBytes(root))} free)` : ''}`,
    lockFd,
    workdirOf,
    logOf,
    prepare: async (index) => {
      // Its launcher goes by the name.
      if (whereabouts({ fd: held.fd, path: root }) !== 'here')
        throw new Error(`${showPath(root)} is not the directory any more that was made there`);
      await removeTree(inside(index));
      fs.mkdirSync(inside(index), { mode: 0o700 });
    },
    remove: async (index) => {
      await removeTree(inside(index));
      await removeTree(`${inside(index)}.log`);
    },
    isUnsaved: (index) => isUnsaved(inside(index)),
    isInVain: (index) => isInVain(inside(index)),
    keep: (index) => {
      const kept = `${inside(index)}${FAILED}`;
      return [moved(inside(index), kept), moved(`${inside(index)}.log`, `${kept}.log`)]
        .filter((name) => name !== undefined)
        .map(shown);
    },
    setAside: (index) => {
      const aside = setAside(inside(index));
      return aside === undefined ? undefined : shown(aside);
    },
    close: async () => {
      await removeRest(held, root, log);
      held.close();
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
async function removeRest({ at }: Held, root: string, log: Pick<Log, 'warn'>): Promise<void> {
  let keepsSome = false;
  for await (const { name } of await fs.promises.opendir(at)) {
    const aside = /^\d+$/.test(name) && isUnsaved(`${at}/${name}`) ? setAside(`${at}/${name}`) : undefined;
    if (aside !== undefined)
      log.warn(
        `what a task that was killed may not have stored stays in ${showPath(path.join(root, path.basename(aside)))}`,
        { hint: UNSAVED_HINT },
      );
    if (aside !== undefined || name.includes(UNSAVED) || name.includes(FAILED)) keepsSome = true;
    else if (name !== LOCK) await removeTree(`${at}/${name}`);
  }
  if (!keepsSome) await emptyDirectory(at);
  await removeTree(`${at}/${LOCK}`);
  if (!keepsSome) removeRoot(root);
}

/** Only the empty directory that we have made: another one may have its name by now. */
function removeRoot(root: string): void {
  try {
    fs.rmdirSync(root);
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR', 'ENOTEMPTY'].includes(errnoOf(error) ?? '')) throw error;
  }
}

function freeBytes(dir: string): number {
  const { bavail, bsize } = fs.statfsSync(dir);
  return bavail * bsize;
}

/** Of our user's runners that were killed, and whose tasks have ended since. */
async function removeAbandoned(base: string, log: Pick<Log, 'warn'>): Promise<void> {
  for await (const { name } of await fs.promises.opendir(base)) {
    if (!name.startsWith(PREFIX)) continue;
    const root = path.join(base, name);
    try {
      const held = holdPrivateDir(root);
      try {
        const fd = openHeldFile(held, LOCK, fs.constants.O_RDWR);
        if (tryLock(fd)) await removeRest(held, root, log);
        fs.closeSync(fd);
      } finally {
        held.close();
      }
    } catch {
      // Another runner removes it as well; or nobody may.
    }
  }
}
