// The directory of a file store: that it is still the one that was opened, what stands where in it, and how that gets
// onto the disk. An object is a plain file under its key, so that people can use the directory without us. What belongs
// to us stands apart and is never taken for an object: temporaries, and the metadata of each object, in a file that names
// its inode. Metadata is written before the object becomes visible and removed after the object is gone: a kill in
// between leaves rubbish, never a lie.
//
// Others may write in a store. So each folder in it is held while something is done in it, and no link leads to it
// (openat2(2)): whatever they rename or replace meanwhile, nothing outside of the store is read, written or removed.
import fs, { type BigIntStats } from 'node:fs';
import { dirname } from 'node:path';
import * as z from 'zod';
import { errnoOf } from '../../model/errors.ts';
import { md5Of } from '../../model/md5.ts';
import { parseForeignJson } from '../../model/format/foreign-json.ts';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { isInside } from '../../model/path.ts';
import { clockMs } from '../../native/clock.ts';
import { holdDirectoryLater, type HeldDirectory } from '../../native/beneath.ts';
import { StoreError, type ObjectMeta } from '../contract/store.ts';

/** Set-group-ID (inode(7)): what is made in such a directory gets its group, so it is one that a group shares. */
const SET_GROUP_ID = 0o2000n;
/** The umask alone takes rights away. */
const OPEN_MODE = 0o777;

interface Held {
  readonly fd: number;
  readonly dev: bigint;
  readonly ino: bigint;
  readonly isShared: boolean;
}

/** A folder that is held for several at once. */
interface SharedFolder {
  readonly opened: Promise<HeldDirectory>;
  /** From then on others open it anew: somebody may have put another folder in its place. */
  readonly untilMs: number;
  users: number;
}

const SHARED_MS = 100;

/**
 * Held open from the first time that it is seen: while the descriptor is open no other directory gets its inode. Once it
 * was seen it is never made again: what it held would be lost without a word.
 */
export class StoreRoot {
  readonly #shared = new Map<string, SharedFolder>();
  readonly #path: string;
  #held: Held | undefined;
  #making: Promise<void> | undefined;

  /** `path`: absolute. */
  constructor(path: string) {
    this.#path = path;
  }

  /** True if the directory is a group's. */
  get isShared(): boolean {
    return this.#held?.isShared ?? false;
  }

  /** Throws `lost` unless the path names the directory that it named before. One that was never there may be missing. */
  async check(): Promise<void> {
    const path = this.#path;
    if (this.#held === undefined) {
      try {
        return this.#hold();
      } catch (error) {
        return unlessMissing(asNoDirectory(error, path));
      }
    }
    const { dev, ino } = this.#held;
    const now = await fs.promises.stat(path, { bigint: true }).catch(unlessMissing);
    if (now?.dev === dev && now.ino === ino) return;
    throw new StoreError('lost', `${now === undefined ? 'nothing' : 'another directory'} stands at ${path}`);
  }

  /** The same; a directory that was never there is made. */
  make(): Promise<void> {
    // One at a time: two that found nothing would each make a directory and hold it.
    return (this.#making ??= this.#make().finally(() => (this.#making = undefined)));
  }

  /**
   * Holds a folder of the store; `''`: the store itself. Throws ENOENT, ENOTDIR, and ELOOP if a link stands in the way:
   * nobody follows it. What is done at about the same time shares a descriptor, as there may be few of them.
   */
  async hold(folder: string): Promise<HeldDirectory> {
    let shared = this.#shared.get(folder);
    if (shared === undefined || shared.untilMs < clockMs()) {
      shared = { opened: this.#open(folder), untilMs: clockMs() + SHARED_MS, users: 0 };
      this.#shared.set(folder, shared);
    }
    shared.users += 1;
    const one = shared;
    const release = (): boolean => {
      one.users -= 1;
      if (one.users === 0 && this.#shared.get(folder) === one) this.#shared.delete(folder);
      return one.users === 0;
    };
    try {
      const held = await one.opened;
      return { at: held.at, close: () => (release() ? held.close() : undefined) };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #open(folder: string): Promise<HeldDirectory> {
    const path = this.#path;
    if (this.#held === undefined) throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' });
    return holdDirectoryLater({ fd: this.#held.fd, path }, folder);
  }

  async close(): Promise<void> {
    if (this.#held !== undefined) fs.closeSync(this.#held.fd);
    this.#held = undefined;
  }

  async #make(): Promise<void> {
    await this.check();
    if (this.#held !== undefined) return;
    await makeRoot(this.#path);
    if (this.#held === undefined) this.#hold();
  }

  #hold(): void {
    // A plain descriptor: unlike a FileHandle it is not closed when nobody refers to it any more.
    const fd = fs.openSync(this.#path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    const { dev, ino, mode } = fs.fstatSync(fd, { bigint: true });
    this.#held = { fd, dev, ino, isShared: (mode & SET_GROUP_ID) !== 0n };
  }
}

function unlessMissing(error: unknown): undefined {
  if (errnoOf(error) === 'ENOENT') return undefined;
  throw error;
}

/** Names the file that stands where the directory, or one above it, should (open(2), ENOTDIR). */
function asNoDirectory(error: unknown, path: string): unknown {
  if (errnoOf(error) !== 'ENOTDIR') return error;
  let at = path;
  while (at !== '/' && !isThere(at)) at = dirname(at);
  return new StoreError('refused', `the store cannot be in ${path}: ${at} is a file, not a directory`, {
    hint: 'name a directory with --to or --from',
    cause: error,
  });
}

function isThere(path: string): boolean {
  try {
    return fs.statSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // ENOTDIR: what is above it is no directory
  }
}

/** At the root of the store. Keys of capture begin with `.capture/`, never with this. */
const OURS = '.capture-store';

/** A file in a folder of the store. */
export interface Spot {
  readonly folder: string;
  readonly name: string;
}

/** Folders are paths below the root, `''` is the root itself. */
export interface Layout {
  /** Absolute, without a slash at its end. */
  readonly root: string;
  /** The folder of temporaries: on the same file system, so that a rename publishes them. */
  readonly tmp: string;
  /** Where an object is; throws `refused` for a key that would leave the store. */
  spotOf(key: string): Spot;
  /** The metadata of the object that is this very inode: never that of the one before or after it. */
  metaSpot(key: string, ino: bigint): Spot;
  /** True for what a listing must not show. */
  isOurs(name: string, folder: string): boolean;
  /** {@link StoreRoot.hold} */
  hold(folder: string): Promise<HeldDirectory>;
  /** Of a new folder, before the umask: objects are found in it by whoever may read them. */
  directoryMode(folder: string): number;
  /** Of the file of a new object, before the umask. */
  objectMode(meta: ObjectMeta): number;
  /** Of a new file that is no object, before the umask. */
  ownMode(): number;
}

/**
 * The layout of a store at `root`. What a task has stored has the mode of the task's own file; the rest, such as
 * records, is its user's alone, or the group's if a group shares the directory. The umask takes rights away as for any
 * new file (open(2)), and the owner can always read and write.
 */
export function layoutOf(root: string, directory: Pick<StoreRoot, 'isShared' | 'hold'>): Layout {
  const ownMode = (): number => (directory.isShared ? 0o660 : 0o600);
  return {
    root,
    hold: (folder) => directory.hold(folder),
    directoryMode: (folder) => {
      const isOwn = [`${OURS}/`, TASKS_PREFIX].some((own) => `${folder}/`.startsWith(own));
      return isOwn ? (directory.isShared ? 0o770 : 0o700) : OPEN_MODE;
    },
    objectMode: ({ mode = '' }) =>
      /^[0-7]{1,4}$/.test(mode) ? (Number.parseInt(mode, 8) & 0o777) | 0o600 : ownMode(),
    ownMode,
    tmp: `${OURS}/tmp`,
    spotOf: (key) => {
      if (isInside(key) && !`${key}/`.startsWith(`${OURS}/`)) return spotAt(key);
      throw new StoreError('refused', `the key ${JSON.stringify(key)} would leave the store file://${root}`);
    },
    metaSpot: (key, ino) => {
      const name = md5Of(key);
      return { folder: `${OURS}/meta/${name.slice(0, 2)}`, name: `${name}.${ino}` };
    },
    isOurs: (name, folder) => name === OURS && folder === '',
  };
}

function spotAt(key: string): Spot {
  const cut = key.lastIndexOf('/');
  return { folder: key.slice(0, Math.max(0, cut)), name: key.slice(cut + 1) };
}

/** What `act` makes of an absolute path to the file, whose folder is held meanwhile. Throws as {@link StoreRoot.hold}. */
export async function inFolder<T>(
  layout: Layout,
  { folder, name }: Spot,
  act: (path: string, at: string) => Promise<T>,
): Promise<T> {
  const held = await layout.hold(folder);
  try {
    return await act(`${held.at}/${name}`, held.at);
  } finally {
    held.close();
  }
}

/** The same; the folder is made if it is not there. */
export async function inMadeFolder<T>(
  layout: Layout,
  spot: Spot,
  act: (path: string, at: string) => Promise<T>,
): Promise<T> {
  await makeFolder(layout, spot.folder);
  return inFolder(layout, spot, act);
}

/** Size and time tell an object from a later file that got its inode, or was written over it by hand. */
const metaSchema = z.object({
  key: z.string(),
  size: z.string(),
  mtimeNs: z.string(),
  meta: z.record(z.string(), z.string()),
});

interface WithMeta {
  readonly key: string;
  /** That is to become the object. */
  readonly file: BigIntStats;
  readonly meta: ObjectMeta;
  /** A path for the time until all of it is written: of a name that nobody can guess, in `tmp`, which is held. */
  readonly temporary: string;
}

/** Stores the metadata of a file that is to become an object. */
export async function writeMeta(layout: Layout, { key, file, meta, temporary }: WithMeta): Promise<void> {
  const text = JSON.stringify({ key, size: String(file.size), mtimeNs: String(file.mtimeNs), meta });
  // Never half-written under its name: an inode that is used again finds the old file in its place.
  try {
    await writeDurably(temporary, Buffer.from(text), layout.ownMode());
    await inMadeFolder(layout, layout.metaSpot(key, file.ino), async (path, at) => {
      await fs.promises.rename(temporary, path);
      await syncDirectory(at);
    });
  } catch (error) {
    await fs.promises.rm(temporary, { force: true });
    throw error;
  }
}

/** The metadata that belongs to this file; undefined when there is none, as for files put there by hand. */
export async function readMeta(
  layout: Layout,
  key: string,
  file: BigIntStats,
): Promise<ObjectMeta | undefined> {
  const text = await inFolder(layout, layout.metaSpot(key, file.ino), readOwn).catch(unlessNoObject);
  const json = text === undefined ? undefined : parseForeignJson(text);
  if (json === undefined || 'invalid' in json) return undefined;
  const { data } = metaSchema.safeParse(json.value);
  const same = data?.key === key && data.size === String(file.size) && data.mtimeNs === String(file.mtimeNs);
  return same ? data.meta : undefined;
}

/** Removes the metadata of an object that is no longer there. */
export async function dropMeta(layout: Layout, key: string, ino: bigint): Promise<void> {
  const drop = (path: string): Promise<void> => fs.promises.rm(path, { force: true });
  await inFolder(layout, layout.metaSpot(key, ino), drop).catch(unlessNoObject);
}

/** Of a file of our own: a key of 1 KiB, and metadata of 2 KiB. */
const OWN_LIMIT_BYTES = 64 * 1024;

/**
 * The text of a file of our own; undefined if there is none. What others have put in its place (a link, a FIFO, a
 * directory, a file without end) is neither followed nor waited for, and is none.
 */
export async function readOwn(path: string): Promise<string | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  try {
    // Not blocked by a FIFO (fifo(7)).
    const file = await fs.promises.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const stat = await file.stat();
      if (!stat.isFile() || stat.size > OWN_LIMIT_BYTES) return undefined;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(OWN_LIMIT_BYTES), 0, OWN_LIMIT_BYTES, 0);
      return buffer.toString('utf8', 0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    return unlessNoObject(error);
  }
}

/** ELOOP: a link stands there, or leads there; ENXIO: a socket. */
const NO_OBJECT: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO']);

/** Undefined if the error says that nothing is there which could be an object, or a file of our own. */
export function unlessNoObject(error: unknown): undefined {
  if (!NO_OBJECT.has(errnoOf(error) ?? '')) throw error;
}

/** A new file for writing. Throws EEXIST if anything stands there, a link as well (open(2), O_EXCL). */
export function createFile(path: string, mode: number): Promise<fs.promises.FileHandle> {
  return fs.promises.open(path, 'wx', mode);
}

/** Writes a whole small new file and syncs it; its directory is the caller's. */
async function writeDurably(path: string, bytes: Uint8Array, mode: number): Promise<void> {
  const file = await createFile(path, mode);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes renames and new names in a directory durable: a sync of the file does not (fsync(2)). */
export async function syncDirectory(path: string): Promise<void> {
  const dir = await fs.promises.open(`${path}/.`, 'r');
  try {
    await dir.sync();
  } catch (error) {
    // Some network file systems cannot sync a directory: their server does it.
    if (errnoOf(error) !== 'EINVAL' && errnoOf(error) !== 'ENOTSUP') throw error;
  } finally {
    await dir.close();
  }
}

/** Makes a folder of the store with all that lead to it, and makes each new one durable. */
async function makeFolder(layout: Layout, folder: string): Promise<void> {
  try {
    return (await layout.hold(folder)).close();
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || folder === '') throw error;
  }
  await inMadeFolder(layout, spotAt(folder), async (path, at) => {
    try {
      await fs.promises.mkdir(path, { mode: layout.directoryMode(folder) });
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw error;
    }
    await syncDirectory(at);
  });
}

/** Makes the directory that the user named with all that lead to it, and makes each new one durable. */
async function makeRoot(path: string): Promise<void> {
  // Not `recursive`: Node tries for ever where the parent is there and still nothing can be made, as in /proc.
  const made = await makeIfParent(path);
  if (made === 'no-parent') {
    await makeRoot(dirname(path));
    if ((await makeIfParent(path)) === 'no-parent') await fs.promises.mkdir(path, { mode: OPEN_MODE });
  }
}

async function makeIfParent(path: string): Promise<'there' | 'no-parent'> {
  try {
    await fs.promises.mkdir(path, { mode: OPEN_MODE });
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENOENT' && dirname(path) !== path) return 'no-parent';
    if (code !== 'EEXIST') throw error;
    if ((await fs.promises.stat(path)).isDirectory()) return 'there';
    throw Object.assign(new Error(`${path} is no directory`, { cause: error }), { code: 'ENOTDIR' });
  }
  await syncDirectory(dirname(path));
  return 'there';
}
