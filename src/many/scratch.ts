// The work directories of the tasks, one for each index, in memory (tmpfs) if there is room. What is durable is removed;
// what failed stays, with its log. A directory of a runner that was killed is removed by the next one: its lock is free
// once the last process of it is gone.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { encodePath, showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import { tryLock } from '../native/files.ts';
import { mountOf } from '../native/mounts.ts';

const SHARED_MEMORY = '/dev/shm';
/** For each task that runs at once: tmpfs takes its memory from them. */
const ROOM_BYTES = 512 * 2 ** 20;
const PREFIX = 'capture-array.';
/** What such a directory holds is nowhere else. */
const UNSAVED = '.unsaved-';

export interface Scratch {
  readonly root: string;
  /** `in /dev/shm/capture-array.x (memory, 15.2 GiB free)` */
  readonly words: string;
  /** Locked as long as anybody has it open: each launcher gets it. */
  readonly lockFd: number;
  workdirOf(index: number): string;
  logOf(index: number): string;
  /** An empty work directory. What an earlier try has left there is moved away if it is not stored anywhere. */
  prepare(index: number): Promise<void>;
  /** Nothing of the index is needed any more. */
  remove(index: number): Promise<void>;
  /** What is there stays, also after the end. */
  keep(index: number): void;
  /** Its next try must not remove what is there: only there it is. */
  setAside(index: number): Promise<string>;
  /** Removes all but what is kept. */
  close(): Promise<void>;
}

export async function openScratch(
  dir: string | undefined,
  { tasksAtOnce, availableBytes }: { readonly tasksAtOnce: number; readonly availableBytes: number },
): Promise<Scratch> {
  const inMemory = dir === undefined && hasRoom(tasksAtOnce * ROOM_BYTES, availableBytes);
  const base = dir ?? (inMemory ? SHARED_MEMORY : os.tmpdir());
  try {
    await removeAbandoned(base);
    const root = fs.mkdtempSync(path.join(base, PREFIX));
    return scratchIn(root, lock(root), inMemory);
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
  const fd = fs.openSync(path.join(root, 'lock.new'), 'w', 0o600);
  tryLock(fd);
  fs.renameSync(path.join(root, 'lock.new'), path.join(root, 'lock'));
  return fd;
}

function scratchIn(root: string, lockFd: number, inMemory: boolean): Scratch {
  const kept = new Set<string>();
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
    keep: (index) => {
      kept.add(String(index)).add(`${index}.log`);
    },
    setAside: async (index) => {
      let aside = '';
      for (let n = 1; aside === '' || fs.existsSync(aside); n += 1)
        aside = `${workdirOf(index)}${UNSAVED}${n}`;
      fs.renameSync(workdirOf(index), aside);
      kept.add(path.basename(aside));
      return aside;
    },
    close: async () => {
      for (const name of fs.readdirSync(root)) if (!kept.has(name)) await removeAll(path.join(root, name));
      if (kept.size === 0) await removeAll(root);
      fs.closeSync(lockFd);
    },
  };
}

function freeBytes(dir: string): number {
  const { bavail, bsize } = fs.statfsSync(dir);
  return bavail * bsize;
}

function removeAll(target: string): Promise<void> {
  return fs.promises.rm(encodePath(target), { recursive: true, force: true });
}

/** Of our user's runners that were killed, and whose tasks have ended since. */
async function removeAbandoned(base: string): Promise<void> {
  for (const name of fs.readdirSync(base).filter((one) => one.startsWith(PREFIX))) {
    const root = path.join(base, name);
    try {
      if (fs.lstatSync(root).uid !== process.getuid?.()) continue;
      const fd = fs.openSync(path.join(root, 'lock'), fs.constants.O_RDWR | fs.constants.O_NOFOLLOW);
      if (tryLock(fd) && !fs.readdirSync(root).some((one) => one.includes(UNSAVED))) await removeAll(root);
      fs.closeSync(fd);
    } catch {
      // Another runner removes it as well; or nobody may.
    }
  }
}
