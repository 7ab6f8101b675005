// What stands where in the file store. An object is a plain file under its key, so that people can use the directory
// without us. What belongs to us stands apart and is never taken for an object: temporaries, and the metadata of each
// object, in a file that names its inode. Metadata is written before the object becomes visible and removed after the
// object is gone: a kill in between leaves rubbish, never a lie.
import type { BigIntStats } from 'node:fs';
import fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { errnoOf } from '../../model/errors.ts';
import { md5Of } from '../../model/md5.ts';
import { isInside } from '../../model/path.ts';
import { StoreError, type ObjectMeta } from '../contract/store.ts';
import { makeDirectory, syncDirectory, writeDurably } from './sync.ts';

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
  await fs.rename(`${path}.new`, path);
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
    text = await fs.readFile(layout.metaPath(key, file.ino), 'utf8');
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
  await fs.rm(layout.metaPath(key, ino), { force: true });
}
