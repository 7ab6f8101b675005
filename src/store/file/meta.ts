// An object's metadata, in a file of its own that names the inode it belongs to. It is written before the
// object becomes visible and removed after the object is gone: a kill in between leaves rubbish, never a lie.
import type { BigIntStats } from 'node:fs';
import fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { errnoOf } from '../../model/errors.ts';
import type { ObjectMeta } from '../contract/store.ts';
import type { Layout } from './layout.ts';
import { makeDirectory, syncDirectory, writeDurably } from './sync.ts';

/** Size and time tell an object from a later file that got its inode, or was written over it by hand. */
const schema = z.object({
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
  const parsed = schema.parse(JSON.parse(text));
  const same =
    parsed.key === key && parsed.size === String(file.size) && parsed.mtimeNs === String(file.mtimeNs);
  return same ? parsed.meta : undefined;
}

/** Removes the metadata of an object that is no longer there. */
export async function dropMeta(layout: Layout, key: string, ino: bigint): Promise<void> {
  await fs.rm(layout.metaPath(key, ino), { force: true });
}
