// The work directories of the tasks, in memory (tmpfs) if there is room. Each is named after its index, `3`; if `3`
// exists, because of another submission or because it was kept, the name is `3-2`. Directories with only durable files
// are removed. Those of failed tasks on a disk, and those with files that are stored nowhere else, stay with their logs
// under a name that says so. The next runner, or run with `--workdir auto`, removes what a killed one left, except for
// directories that no sidecar has marked as saved. The lock of a killed one is free once its last process is gone.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Log } from '../log/log.ts';
import { CaptureError, isFull, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { FENCED, FRESH_FILE, IN_VAIN, OWN_DIR, SAVED_FILE } from '../model/file/manifest.ts';
import { showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import { untilAborted, whileLinked } from '../model/waiting.ts';
import { whereabouts } from '../native/beneath.ts';
import { isEmptyDirectory } from '../native/directory-entries.ts';
import { isInMemory } from '../native/disk-use.ts';
import { mountOf } from '../native/mounts.ts';
import { holdPrivateDir, makePrivateDir, makePrivateFile, readPrivateFile } from '../native/private-dir.ts';
import { removeTree } from '../native/remove-tree.ts';
import { lock, removeAbandoned } from './abandoned.ts';
import {
  DONE,
  FAILED,
  type FateOf,
  type HeldDir,
  isSurelyStored,
  makeRoom,
  moved,
  type NO_INDEX,
  PREFIX,
  removeRest,
  setAside,
} from './left-work.ts';
import { KeptWork } from './roots.ts';

const SHARED_MEMORY = '/dev/shm';
/** For each task that runs at the same time: tmpfs takes its memory from the tasks. */
const ROOM_BYTES = 512 * 2 ** 20;
/** A start waits so long for the sweep. Others may have put any number of names there. */
const SWEEP_WAIT_MS = 2000;

/** The work directory and log of one start. Nothing exists before {@link TaskDir.make}. */
export interface TaskDir {
  readonly path: string;
  /** File for stdout and stderr. */
  readonly log: string;
  /** Creates an empty work directory. */
  make(): void;
  /** Removes all of it. */
  remove(): Promise<void>;
  /** Empties the directory for a later try. If that try runs here, its log continues this one. */
  clear(): Promise<void>;
  /**
   * A task started there, and no sidecar has confirmed that all closed files are stored. They may exist nowhere else.
   */
  isUnsaved(): boolean;
  /** The sidecar has reported that another attempt would end the same way. */
  isInVain(): boolean;
  /** Another attempt has the index: the sidecar has reported that, or no task has begun here. */
  isFenced(): boolean;
  /**
   * Keeps a failed task's files, also after the runner's end. If they take memory, and all that was closed is stored,
   * keeps only the log: nobody may look at them for days. Resolves to their new names.
   */
  keep(): Promise<readonly string[]>;
  /** Keeps files that exist nowhere else, out of the next try's way. Returns no names if the task removed them. */
  setAside(): readonly string[];
}

export interface Scratch {
  readonly root: string;
  /** `in /dev/shm/capture-work.x (memory, 15.2 GiB free)` */
  readonly words: string;
  /** Locked as long as any process has it open; each launcher inherits it. */
  readonly lockFd: number;
  /** A directory for one start of this index; it never returns one that exists. */
  dirFor(index: number | typeof NO_INDEX): TaskDir;
  /** What the file system says; it may know no quota. */
  mayBeFull(): boolean;
  /** Whether a file can be written there: the file system may be full, or the user's quota used up. */
  hasRoom(): boolean;
  /** Removes the directories of failed tasks, but no logs and no unsaved files. Resolves to their names. */
  makeRoom(): Promise<readonly string[]>;
  /** The index is done: removes what this and earlier runners have kept of it, as {@link KeptWork} says. */
  removeKept(index: number, isOf: (log: string) => boolean): Promise<void>;
  /** Removes everything that is not kept. Later runners do not remove kept files either. */
  close(): Promise<void>;
}

export interface ScratchNeeds {
  readonly tasksAtOnce: number;
  /** Only this worker tries the indices, and no index runs twice at a time, so all tries of an index share one log. */
  readonly hasAllTries: boolean;
  readonly availableBytes: number;
  /** For hints, how the user names another place: `name a directory of another file system with --scratch`. */
  readonly nameIt: (what: string) => string;
  /** When it aborts, nothing more is swept first. */
  readonly stopping: AbortSignal | undefined;
  /** What the sweep does with directories of killed runners that may hold the only copy; by default sets them aside. */
  readonly fateOf?: FateOf;
  readonly log: Pick<Log, 'warn'>;
}

export async function openScratch(
  dir: string | undefined,
  { tasksAtOnce, hasAllTries, availableBytes, nameIt, stopping, fateOf, log }: ScratchNeeds,
): Promise<Scratch> {
  const needed = tasksAtOnce * ROOM_BYTES;
  // A job's own TMPDIR goes with the job.
  const memory = [os.tmpdir(), SHARED_MEMORY].find((one) => hasRoom(one, needed, availableBytes));
  const base = dir ?? memory ?? os.tmpdir();
  const inMemory = dir === undefined && memory !== undefined;
  try {
    // If the directory cannot be listed, nothing is swept. What is left at a stop is for the next runner; what takes
    // longer goes on beside the tasks.
    const limit = AbortSignal.timeout(SWEEP_WAIT_MS);
    const swept = removeAbandoned(base, log, fateOf);
    await whileLinked([stopping, limit], (signal) => untilAborted(swept, signal)).catch(() => undefined);
    const root = fs.mkdtempSync(path.join(base, PREFIX));
    return scratchIn(root, { held: hold(root), lockFd: lock(root), hasAllTries, inMemory, log });
  } catch (error) {
    throw new CaptureError(
      isFull(error) ? EXIT.unavailable : EXIT.usage,
      `cannot make work directories below ${showPath(base)}: ${reasonOf(error)}`,
      {
        hint: isFull(error)
          ? `make room there, or ${nameIt('a directory of another file system')}`
          : nameIt('a directory that exists and can be written'),
        cause: error,
      },
    );
  }
}

/** In memory, with so much room. Programs must be able to run there: many containers mount it noexec. */
function hasRoom(dir: string, neededBytes: number, availableBytes: number): boolean {
  try {
    const mount = mountOf(fs.realpathSync(dir));
    fs.accessSync(dir, fs.constants.W_OK | fs.constants.X_OK);
    const isUsable = mount?.type === 'tmpfs' && !mount.options.includes('noexec');
    // The tasks would miss more than half of the free memory.
    return isUsable && Math.min(freeBytes(dir), availableBytes / 2) >= neededBytes;
  } catch {
    return false;
  }
}

/**
 * Opens the scratch directory. Others may rename it if they can write to its parent, so everything below goes through
 * this descriptor.
 */
function hold(root: string): HeldDir {
  const held = holdPrivateDir(root);
  if (isEmptyDirectory(held.at)) return held;
  held.close();
  throw new Error(`somebody has put another directory in place of ${showPath(root)}`);
}

interface Opened extends Pick<ScratchNeeds, 'hasAllTries' | 'log'> {
  readonly held: HeldDir;
  readonly lockFd: number;
  readonly inMemory: boolean;
}

function scratchIn(root: string, { held, lockFd, hasAllTries, inMemory, log }: Opened): Scratch {
  const keptWork = new KeptWork(path.dirname(root));
  return {
    root,
    words: `${root}${inMemory ? ` (memory, ${formatBytes(freeBytes(root))} free)` : ''}`,
    lockFd,
    dirFor: (index) => taskDir(root, held, freeName(`${held.at}/${index}`, hasAllTries), hasAllTries),
    mayBeFull: () => freeBytes(held.at) < PROBE_BYTES,
    hasRoom: () => hasRoomIn(held),
    makeRoom: () => makeRoom(held, root, log),
    removeKept: (index, isOf) => keptWork.remove(index, isOf),
    close: async () => {
      await removeRest(held, root, log).catch((error: unknown) =>
        log.warn(`${showPath(root)} cannot be removed: ${reasonOf(error)}`, { hint: 'remove it by hand' }),
      );
      held.close();
      fs.closeSync(lockFd);
    },
  };
}

const { O_CREAT, O_EXCL, O_WRONLY } = fs.constants;
/** What a start writes before its task begins is less, unless it restores files. */
const PROBE_BYTES = 2 ** 20;

/** Not even a directory entry may fit. */
function hasRoomIn({ at }: HeldDir): boolean {
  let fd: number | undefined;
  try {
    const probe = `${at}/${randomUUID()}`;
    fd = fs.openSync(probe, O_WRONLY | O_CREAT | O_EXCL, 0o600);
    fs.unlinkSync(probe);
    fs.writeFileSync(fd, Buffer.alloc(PROBE_BYTES));
    // Some file systems choose the blocks only then, or ask their server only then.
    fs.fsyncSync(fd);
    return true;
  } catch (error) {
    return !isFull(error);
  } finally {
    if (fd !== undefined) fs.closeSync(fd);
  }
}

/** `inside` is the path through the open directory. */
function taskDir(root: string, held: HeldDir, inside: string, keepsLog: boolean): TaskDir {
  const log = `${inside}.log`;
  const shown = (name: string): string => path.join(root, path.basename(name));
  const nameOfDone = (): string => `${inside}${DONE}${randomUUID()}`;
  const savedText = (): string | undefined => readPrivateFile(path.join(inside, OWN_DIR), SAVED_FILE);
  return {
    path: shown(inside),
    log: shown(log),
    make: () => {
      // The launcher needs the name.
      if (whereabouts({ fd: held.fd, path: root }) !== 'here')
        throw new Error(`${showPath(root)} is not the directory any more that was made there`);
      fs.mkdirSync(inside, { mode: 0o700 });
      makePrivateDir(path.join(inside, OWN_DIR));
      fs.closeSync(makePrivateFile(path.join(inside, OWN_DIR), FRESH_FILE));
    },
    remove: async () => {
      // The sidecar's mark goes with it. If a rest stays, its name says that it is no task's any more.
      for (const name of moved(inside, nameOfDone())) await removeTree(name); // oxlint-disable-line no-await-in-loop -- two
    },
    clear: async () => {
      await removeTree(inside);
      if (!keepsLog) await removeTree(log);
    },
    isUnsaved: () => !isSurelyStored(inside),
    isInVain: () => savedText() === IN_VAIN,
    isFenced: () => savedText() === FENCED || (savedText() === undefined && isSurelyStored(inside)),
    keep: async () => {
      let from = inside;
      if (isInMemory(root) && isSurelyStored(inside)) {
        from = nameOfDone();
        moved(inside, from);
        await removeTree(from).catch(() => undefined); // `close` tries again, and says what stays
      }
      return moved(from, `${inside}${FAILED}`).map(shown);
    },
    setAside: () => setAside(inside).map(shown),
  };
}

/** Returns `base`, or `base-2` and so on: a name that no directory, kept directory or log of another task has. */
function freeName(base: string, mayHaveLog: boolean): string {
  const ends = ['', FAILED, `${FAILED}.log`, ...(mayHaveLog ? [] : ['.log'])];
  let name = base;
  for (let n = 2; ends.some((end) => fs.existsSync(name + end)); n += 1) name = `${base}-${n}`;
  return name;
}

function freeBytes(dir: string): number {
  const { bavail, bsize } = fs.statfsSync(dir);
  return bavail * bsize;
}
