// The work directories of the tasks, in memory (tmpfs) if there is room. Each is named for its index, `3`; if there is a `3`
// already, of another submission or kept, it is `3-2`. What is durable is removed; what failed, or is stored nowhere, stays
// with its log under a name that says so. What a runner that was killed has left is removed by the next one, but for that
// and what no sidecar has called saved: its lock is free once its last process is gone.
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

/** Where one start of a task works, and what it wrote. Nothing is there before {@link TaskDir.make}. */
export interface TaskDir {
  readonly path: string;
  /** Of its stdout and stderr. */
  readonly log: string;
  /** An empty work directory. */
  make(): void;
  /** Nothing of it is needed any more. */
  remove(): Promise<void>;
  /** A later try begins with an empty directory. If it is made here, its log begins with what this one wrote. */
  clear(): Promise<void>;
  /** A task began there, and nobody has said that all it closed is stored: it may be nowhere else. */
  isUnsaved(): boolean;
  /** Its sidecar has said that a further attempt would end the same way. */
  isInVain(): boolean;
  /** The task has failed: what is there stays, also after the end. Returns the names that it has from now on. */
  keep(): readonly string[];
  /** The same of what is nowhere else, and not for the next try. None: the task has removed it. */
  setAside(): readonly string[];
}

export interface Scratch {
  readonly root: string;
  /** `in /dev/shm/capture-array.x (memory, 15.2 GiB free)` */
  readonly words: string;
  /** Locked as long as anybody has it open: each launcher gets it. */
  readonly lockFd: number;
  /** For one start of this index: of no other that is there. */
  dirFor(index: number): TaskDir;
  /** Removes all but what is kept, which no later runner removes either. */
  close(): Promise<void>;
}

export interface ScratchNeeds {
  readonly tasksAtOnce: number;
  /** No other worker tries an index, and none is tried twice at a time: all tries have one log. */
  readonly hasAllTries: boolean;
  readonly availableBytes: number;
  readonly log: Pick<Log, 'warn'>;
}

export async function openScratch(
  dir: string | undefined,
  { tasksAtOnce, hasAllTries, availableBytes, log }: ScratchNeeds,
): Promise<Scratch> {
  const inMemory = dir === undefined && hasRoom(tasksAtOnce * ROOM_BYTES, availableBytes);
  const base = dir ?? (inMemory ? SHARED_MEMORY : os.tmpdir());
  try {
    await removeAbandoned(base, log);
    const root = fs.mkdtempSync(path.join(base, PREFIX));
    return scratchIn(root, { held: hold(root), lockFd: lock(root), hasAllTries, inMemory, log });
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

/**
 * Renamed once it is locked: nobody finds it unlocked. It holds the name of its directory: another one that somebody has
 * renamed is not taken for it.
 */
function lock(root: string): number {
  const fd = makePrivateFile(root, 'lock.new');
  tryLock(fd);
  fs.writeFileSync(fd, path.basename(root));
  fs.renameSync(path.join(root, 'lock.new'), path.join(root, LOCK));
  return fd;
}

type Held = ReturnType<typeof holdPrivateDir>;

interface Opened extends Pick<ScratchNeeds, 'hasAllTries' | 'log'> {
  readonly held: Held;
  readonly lockFd: number;
  readonly inMemory: boolean;
}

function scratchIn(root: string, { held, lockFd, hasAllTries, inMemory, log }: Opened): Scratch {
  return {
    root,
    words: `${root}${inMemory ? ` (memory, ${formatBytes(freeBytes(root))} free)` : ''}`,
    lockFd,
    dirFor: (index) => taskDir(root, held, freeName(`${held.at}/${index}`, hasAllTries), hasAllTries),
    close: async () => {
      await removeRest(held, root, log);
      held.close();
      fs.closeSync(lockFd);
    },
  };
}

/** `inside`: by the directory that is held. */
function taskDir(root: string, held: Held, inside: string, keepsLog: boolean): TaskDir {
  const log = `${inside}.log`;
  const shown = (name: string): string => path.join(root, path.basename(name));
  return {
    path: shown(inside),
    log: shown(log),
    make: () => {
      // Its launcher goes by the name.
      if (whereabouts({ fd: held.fd, path: root }) !== 'here')
        throw new Error(`${showPath(root)} is not the directory any more that was made there`);
      fs.mkdirSync(inside, { mode: 0o700 });
    },
    remove: async () => {
      await removeTree(inside);
      await removeTree(log);
    },
    clear: async () => {
      await removeTree(inside);
      if (!keepsLog) await removeTree(log);
    },
    isUnsaved: () => isUnsaved(inside),
    isInVain: () => readPrivateFile(path.join(inside, OWN_DIR), SAVED_FILE) === IN_VAIN,
    keep: () => moved(inside, `${inside}${FAILED}`).map(shown),
    setAside: () => setAside(inside).map(shown),
  };
}

/** `base`, or `base-2` and so on: no directory has this name or is kept under it, and no log is of another task. */
function freeName(base: string, mayHaveLog: boolean): string {
  const ends = ['', FAILED, `${FAILED}.log`, ...(mayHaveLog ? [] : ['.log'])];
  let name = base;
  for (let n = 2; ends.some((end) => fs.existsSync(name + end)); n += 1) name = `${base}-${n}`;
  return name;
}

/** The sidecar says so itself, in the directory: its launcher, or we, may have been killed. */
function isUnsaved(workdir: string): boolean {
  const has = (name: string): boolean => fs.existsSync(path.join(workdir, OWN_DIR, name));
  return has(ATTEMPT_FILE) && !has(SAVED_FILE);
}

function setAside(dir: string): readonly string[] {
  let n = 1;
  while (fs.existsSync(`${dir}${UNSAVED}${n}`)) n += 1;
  return moved(dir, `${dir}${UNSAVED}${n}`);
}

/** A work directory and its log. Returns the new names of those that are there. */
function moved(from: string, to: string): readonly string[] {
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

/** Names say what stays: a runner that is killed tells nobody. The lock goes last: without it none comes back for more. */
async function removeRest({ at }: Held, root: string, log: Pick<Log, 'warn'>): Promise<void> {
  let keepsSome = false;
  for await (const { name } of await fs.promises.opendir(at)) {
    // Whichever of the two comes first, its log goes with it.
    const [, dir = ''] = /^(\d+(?:-\d+)?)(?:\.log)?$/.exec(name) ?? [];
    const [aside] = dir !== '' && isUnsaved(`${at}/${dir}`) ? setAside(`${at}/${dir}`) : [];
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
        if (tryLock(fd) && fs.readFileSync(fd, 'utf8') === name) await removeRest(held, root, log);
        fs.closeSync(fd);
      } finally {
        held.close();
      }
    } catch {
      // Another runner removes it as well; or nobody may.
    }
  }
}
