// The directory of a file store: that it is still the one that was opened, where its files are, and how they become
// durable. An object is a plain file under its key, so people can use the directory without capture. Our own files are
// kept apart and are never taken for objects: temporaries, and a metadata file for each object, named after the
// object's inode. Metadata is written before the object becomes visible, and removed after the object. A kill in
// between leaves garbage, but never wrong metadata.
//
// Others may write in a store. So each folder is held open during an operation in it, and is opened without following
// links (openat2(2)). Whatever others rename or replace, nothing outside the store is read, written or removed.
import fs, { type BigIntStats } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import * as z from 'zod';
import { errnoOf } from '../../model/errors.ts';
import { md5Of } from '../../model/md5.ts';
import { parseForeignJson } from '../../model/format/foreign-json.ts';
import { TASKS_PREFIX } from '../../model/format/keys.ts';
import { isInside } from '../../model/path.ts';
import { clockMs } from '../../native/clock.ts';
import { holdDirectoryAsync, type HeldDirectory } from '../../native/beneath.ts';
import { StoreError, type ObjectMeta } from '../contract/store.ts';

/** Set-group-ID (inode(7)): new files in such a directory get its group, so the directory is shared by a group. */
const SET_GROUP_ID = 0o2000n;
/** Only the umask removes rights. */
const OPEN_MODE = 0o777;

interface OpenRoot {
  readonly fd: number;
  readonly dev: bigint;
  readonly ino: bigint;
  readonly isShared: boolean;
  readonly owner: number;
}

/** An open folder that several operations share. */
interface SharedFolder {
  readonly opened: Promise<HeldDirectory>;
  /** After this time operations open it again, because somebody may have put another folder in its place. */
  readonly untilMs: number;
  users: number;
}

const SHARED_MS = 100;

const open = promisify(fs.open);
const fstat = promisify(fs.fstat);

/**
 * Keeps the directory open from its first use, because no other directory gets its inode while a descriptor is open.
 * Once it was seen, it is never created again: that would silently hide the loss of its content.
 */
export class StoreRoot {
  readonly #shared = new Map<string, SharedFolder>();
  readonly #path: string;
  #held: OpenRoot | undefined;
  /**
   * Number of folders below it that are open or being opened. The kernel may reuse the number of a closed descriptor.
   */
  #holds = 0;
  #isClosed = false;
  #making: Promise<void> | undefined;
  #holding: Promise<void> | undefined;

  /** `path` is absolute. */
  constructor(path: string) {
    this.#path = path;
  }

  /** True if a group shares the directory. */
  get isShared(): boolean {
    return this.#held?.isShared ?? false;
  }

  /** Uid of its owner; undefined before the first use. */
  get owner(): number | undefined {
    return this.#held?.owner;
  }

  /** Throws `lost` unless the path still names the same directory. A directory that was never seen may be missing. */
  async check(): Promise<void> {
    const path = this.#path;
    this.#refuseIfClosed();
    if (this.#held === undefined) {
      try {
        return await this.#hold();
      } catch (error) {
        return unlessMissing(asNoDirectory(error, path));
      }
    }
    const { dev, ino } = this.#held;
    const now = await fs.promises.stat(path, { bigint: true }).catch(unlessMissing);
    if (now?.dev === dev && now.ino === ino) return;
    throw new StoreError('lost', `${now === undefined ? 'nothing' : 'another directory'} stands at ${path}`);
  }

  /** The same, but creates a directory that was never seen. */
  make(): Promise<void> {
    // Only one call at a time: two calls that found nothing would each create a directory and open it.
    return (this.#making ??= this.#make().finally(() => (this.#making = undefined)));
  }

  /**
   * Opens a folder of the store; `''` is the store itself. Throws ENOENT, ENOTDIR, and ELOOP if the path contains a
   * link, which is never followed. Operations at about the same time share a descriptor, because descriptors may be
   * scarce.
   */
  async hold(folder: string): Promise<HeldDirectory> {
    this.#refuseIfClosed();
    let shared = this.#shared.get(folder);
    if (shared === undefined || shared.untilMs < clockMs()) {
      shared = { opened: this.#open(folder), untilMs: clockMs() + SHARED_MS, users: 0 };
      this.#shared.set(folder, shared);
    }
    shared.users += 1;
    this.#holds += 1;
    const one = shared;
    const release = (held?: HeldDirectory): void => {
      one.users -= 1;
      if (one.users === 0 && this.#shared.get(folder) === one) this.#shared.delete(folder);
      if (one.users === 0) held?.close();
      this.#holds -= 1;
      this.#closeIfUnused();
    };
    try {
      const held = await one.opened;
      return { at: held.at, close: () => release(held) };
    } catch (error) {
      release();
      throw error;
    }
  }

  async #open(folder: string): Promise<HeldDirectory> {
    const path = this.#path;
    if (this.#held === undefined) throw Object.assign(new Error(`no ${path}`), { code: 'ENOENT' });
    return holdDirectoryAsync({ fd: this.#held.fd, path }, folder);
  }

  /** Running operations keep their folders until they end; the directory is closed after that. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#closeIfUnused();
  }

  #closeIfUnused(): void {
    if (!this.#isClosed || this.#holds > 0 || this.#held === undefined) return;
    fs.closeSync(this.#held.fd);
    this.#held = undefined;
  }

  #refuseIfClosed(): void {
    if (this.#isClosed) throw new Error(`the store ${this.#path} is closed`);
  }

  async #make(): Promise<void> {
    await this.check();
    if (this.#held !== undefined) return;
    await makeRoot(this.#path);
    if (this.#held === undefined) await this.#hold();
  }

  /** Only one call at a time, as for {@link make}. */
  #hold(): Promise<void> {
    return (this.#holding ??= this.#openRoot().finally(() => (this.#holding = undefined)));
  }

  async #openRoot(): Promise<void> {
    // A plain descriptor, because a FileHandle without references is closed by the garbage collector.
    const fd = await open(this.#path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    try {
      const { dev, ino, mode, uid } = await fstat(fd, { bigint: true });
      this.#refuseIfClosed();
      this.#held = { fd, dev, ino, isShared: (mode & SET_GROUP_ID) !== 0n, owner: Number(uid) };
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
  }
}

function unlessMissing(error: unknown): undefined {
  if (errnoOf(error) === 'ENOENT') return undefined;
  throw error;
}

/** Names the file that is in the place of the directory or of one of its parents (open(2), ENOTDIR). */
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
    return false; // ENOTDIR: a parent is no directory
  }
}

/** At the root of the store. Keys of capture start with `.capture/`, never with this name. */
const OURS = '.capture-store';

/** A file in a folder of the store. */
export interface Spot {
  readonly folder: string;
  readonly name: string;
}

/** Folders are paths relative to the root; `''` is the root itself. */
export interface Layout {
  /** Absolute, without a trailing slash. */
  readonly root: string;
  /** The folder of temporaries. It is on the same file system, so that a rename can publish them. */
  readonly tmp: string;
  /** The place of an object. Throws `refused` for a key that would leave the store. */
  spotOf(key: string): Spot;
  /** The metadata file of the object with this inode, never that of an earlier or later object. */
  metaSpot(key: string, ino: bigint): Spot;
  /** {@link StoreRoot.owner} */
  owner(): number | undefined;
  /** True for files that a listing must hide. */
  isOurs(name: string, folder: string): boolean;
  /** {@link StoreRoot.hold} */
  hold(folder: string): Promise<HeldDirectory>;
  /** Mode of a new folder, before the umask. Whoever may read an object can also find it. */
  directoryMode(folder: string): number;
  /** Mode of a new object's file, before the umask. A copy gives others no more than `most`, the mode of its source. */
  objectMode(meta: ObjectMeta, most?: number): number;
  /** Mode of a new file that is no object, before the umask. */
  ownMode(): number;
}

/**
 * The layout of a store at `root`. A file that a task stored has the mode of the task's own file. Other files, such as
 * records, belong to their user alone, or to the group if a group shares the directory. The umask removes rights as for
 * any new file (open(2)), and the owner can always read and write.
 */
export function layoutOf(root: string, directory: Pick<StoreRoot, 'isShared' | 'owner' | 'hold'>): Layout {
  const ownMode = (): number => (directory.isShared ? 0o660 : 0o600);
  return {
    root,
    owner: () => directory.owner,
    hold: (folder) => directory.hold(folder),
    directoryMode: (folder) => {
      const isOwn = [`${OURS}/`, TASKS_PREFIX].some((own) => `${folder}/`.startsWith(own));
      return isOwn ? (directory.isShared ? 0o770 : 0o700) : OPEN_MODE;
    },
    objectMode: ({ mode = '' }, most = 0o777) =>
      ((/^[0-7]{1,4}$/.test(mode) ? Number.parseInt(mode, 8) : ownMode()) & most & 0o777) | 0o600,
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

/** Calls `act` with an absolute path to the file, while its folder is held open. Throws like {@link StoreRoot.hold}. */
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

/** The same, but creates a missing folder. */
export async function inMadeFolder<T>(
  layout: Layout,
  spot: Spot,
  act: (path: string, at: string) => Promise<T>,
): Promise<T> {
  await makeFolder(layout, spot.folder);
  return inFolder(layout, spot, act);
}

/** Size and time distinguish an object from a later file with the same inode, and from an edit by hand. */
const metaSchema = z.object({
  key: z.string(),
  size: z.string(),
  mtimeNs: z.string(),
  meta: z.record(z.string(), z.string()),
});

interface WithMeta {
  readonly key: string;
  /** The file that will become the object. */
  readonly file: BigIntStats;
  readonly meta: ObjectMeta;
  /** The path until the file is complete: an unguessable name in `tmp`, which is held open. */
  readonly temporary: string;
}

/** Stores the metadata of a file that will become an object. */
export async function writeMeta(layout: Layout, { key, file, meta, temporary }: WithMeta): Promise<void> {
  const text = JSON.stringify({ key, size: String(file.size), mtimeNs: String(file.mtimeNs), meta });
  // Must be complete under its name: a reused inode may find the file of an earlier object there.
  try {
    await writeDurably(temporary, Buffer.from(text), layout.ownMode());
    await inMadeFolder(layout, layout.metaSpot(key, file.ino), async (path, at) => {
      await fs.promises.rename(temporary, path);
      await syncDirectory(at);
    });
  } catch (error) {
    await removeOwn(temporary).catch(() => undefined);
    throw error;
  }
}

/** The metadata that belongs to this file; undefined if there is none, as for files that a user put there. */
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

/** Removes the metadata of an object that no longer exists. */
export async function dropMeta(layout: Layout, key: string, ino: bigint): Promise<void> {
  await inFolder(layout, layout.metaSpot(key, ino), removeOwn).catch(unlessNoObject);
}

/** Removes one of our own files, if it exists. Leaves directories, because they are not ours. */
export async function removeOwn(path: string): Promise<void> {
  await fs.promises.unlink(path).catch((error: unknown) => {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'EISDIR') throw error;
  });
}

/** Limit for one of our own files: a key has at most 1 KiB, and metadata 2 KiB. */
const OWN_LIMIT_BYTES = 64 * 1024;

/**
 * The text of one of our own files; undefined if there is none. Anything else in its place (a link, a FIFO, a
 * directory, an endless file) counts as none. It is neither followed nor waited for.
 */
export async function readOwn(path: string): Promise<string | undefined> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  try {
    // Must not block on a FIFO (fifo(7)).
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

/** ELOOP: the path is or contains a link; ENXIO: it is a socket. */
const NO_OBJECT: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO']);

/** Undefined if the error says that there is neither an object nor one of our own files. */
export function unlessNoObject(error: unknown): undefined {
  if (!NO_OBJECT.has(errnoOf(error) ?? '')) throw error;
}

/** Opens a new file for writing. Throws EEXIST if anything exists there, including a link (open(2), O_EXCL). */
export function createFile(path: string, mode: number): Promise<fs.promises.FileHandle> {
  return fs.promises.open(path, 'wx', mode);
}

/** Writes a small new file completely and syncs it. The caller syncs its directory. */
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
    // Some network file systems cannot sync a directory, because their server does it.
    if (errnoOf(error) !== 'EINVAL' && errnoOf(error) !== 'ENOTSUP') throw error;
  } finally {
    await dir.close();
  }
}

/** Creates a folder of the store with its parents, and makes each new one durable. */
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

/** Creates the directory that the user named, with its parents, and makes each new one durable. */
async function makeRoot(path: string): Promise<void> {
  // Not `recursive`: Node loops for ever if the parent exists and still nothing can be created, as in /proc.
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
