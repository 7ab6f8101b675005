// The directory of a file store: that it is still the one that was opened, what stands where in it, and how that gets
// onto the disk. An object is a plain file under its key, so that people can use the directory without us. What belongs
// to us stands apart and is never taken for an object: temporaries, and the metadata of each object, in a file that names
// its inode. Metadata is written before the object becomes visible and removed after the object is gone: a kill in
// between leaves rubbish, never a lie.
import fs, { type BigIntStats } from 'node:fs';
import { dirname } from 'node:path';
import * as z from 'zod';
import { errnoOf } from '../../model/errors.ts';
import { md5Of } from '../../model/md5.ts';
import { isInside } from '../../model/path.ts';
import { StoreError, type ObjectMeta } from '../contract/store.ts';

interface Held {
  readonly fd: number;
  readonly dev: bigint;
  readonly ino: bigint;
}

/**
 * Held open from the first time that it is seen: while the descriptor is open no other directory gets its inode. Once it
 * was seen it is never made again: what it held would be lost without a word.
 */
export class StoreRoot {
  readonly #path: string;
  #held: Held | undefined;
  #making: Promise<void> | undefined;

  /** `path`: absolute. */
  constructor(path: string) {
    this.#path = path;
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

  async close(): Promise<void> {
    if (this.#held !== undefined) fs.closeSync(this.#held.fd);
    this.#held = undefined;
  }

  async #make(): Promise<void> {
    await this.check();
    if (this.#held !== undefined) return;
    await makeDirectory(this.#path);
    if (this.#held === undefined) this.#hold();
  }

  #hold(): void {
    // A plain descriptor: unlike a FileHandle it is not closed when nobody refers to it any more.
    const fd = fs.openSync(this.#path, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    const { dev, ino } = fs.fstatSync(fd, { bigint: true });
    this.#held = { fd, dev, ino };
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

export interface Layout {
  /** Absolute, without a slash at its end. */
  readonly root: string;
  /** Temporaries: on the same file system, so that a rename publishes them. */
  readonly tmp: string;
  /** The file of an object; throws `refused` for a key that would leave the store. */
  objectPath(key: string): string;
  /** The metadata of the object that is this very inode: never that of the one before or after it. */
  metaPath(key: string, ino: bigint): string;
  /** True for what a listing must not show. */
  isOurs(name: string, dir: string): boolean;
}

/** The layout of a store at `root`. */
export function layoutOf(root: string): Layout {
  return {
    root,
    tmp: `${root}/${OURS}/tmp`,
    objectPath: (key) => {
      if (isInside(key) && !`${key}/`.startsWith(`${OURS}/`)) return `${root}/${key}`;
      throw new StoreError('refused', `the key ${JSON.stringify(key)} would leave the store file://${root}`);
    },
    metaPath: (key, ino) => {
      const name = md5Of(key);
      return `${root}/${OURS}/meta/${name.slice(0, 2)}/${name}.${ino}`;
    },
    isOurs: (name, dir) => name === OURS && dir === root,
  };
}

/** Size and time tell an object from a later file that got its inode, or was written over it by hand. */
const metaSchema = z.object({
  key: z.string(),
  size: z.string(),
  mtimeNs: z.string(),
  meta: z.record(z.string(), z.string()),
});

/** Stores the metadata of a file that is to become the object `key`. */
export async function writeMeta(
  layout: Layout,
  key: string,
  file: BigIntStats,
  meta: ObjectMeta,
): Promise<void> {
  const path = layout.metaPath(key, file.ino);
  const text = JSON.stringify({ key, size: String(file.size), mtimeNs: String(file.mtimeNs), meta });
  await makeDirectory(dirname(path), layout.root);
  // Never half-written under its name: an inode that is used again finds the old file in its place.
  await writeDurably(`${path}.new`, Buffer.from(text));
  await fs.promises.rename(`${path}.new`, path);
  await syncDirectory(dirname(path));
}

/** The metadata that belongs to this file; undefined when there is none, as for files put there by hand. */
export async function readMeta(
  layout: Layout,
  key: string,
  file: BigIntStats,
): Promise<ObjectMeta | undefined> {
  let text: string;
  try {
    text = await fs.promises.readFile(layout.metaPath(key, file.ino), 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  const parsed = metaSchema.parse(JSON.parse(text));
  const same =
    parsed.key === key && parsed.size === String(file.size) && parsed.mtimeNs === String(file.mtimeNs);
  return same ? parsed.meta : undefined;
}

/** Removes the metadata of an object that is no longer there. */
export async function dropMeta(layout: Layout, key: string, ino: bigint): Promise<void> {
  await fs.promises.rm(layout.metaPath(key, ino), { force: true });
}

/** Writes a whole small file and syncs it; its directory is the caller's. */
async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await fs.promises.open(path, 'w');
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes renames and new names in a directory durable: a sync of the file does not (fsync(2)). */
export async function syncDirectory(path: string): Promise<void> {
  const dir = await fs.promises.open(path, 'r');
  try {
    await dir.sync();
  } catch (error) {
    // Some network file systems cannot sync a directory: their server does it.
    if (errnoOf(error) !== 'EINVAL' && errnoOf(error) !== 'ENOTSUP') throw error;
  } finally {
    await dir.close();
  }
}

/** Makes a directory with all that lead to it, but not `root` itself, and makes each new one durable. */
export async function makeDirectory(path: string, root?: string): Promise<void> {
  // Not `recursive`: Node tries for ever where the parent is there and still nothing can be made, as in /proc.
  const made = await makeIfParent(path);
  if (made === 'no-parent') {
    if (dirname(path) !== root) await makeDirectory(dirname(path), root);
    if ((await makeIfParent(path)) === 'no-parent') await fs.promises.mkdir(path);
  }
}

async function makeIfParent(path: string): Promise<'there' | 'no-parent'> {
  try {
    await fs.promises.mkdir(path);
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENOENT' && dirname(path) !== path) return 'no-parent';
    if (code === 'EEXIST' && (await fs.promises.stat(path)).isDirectory()) return 'there';
    throw error;
  }
  await syncDirectory(dirname(path));
  return 'there';
}
