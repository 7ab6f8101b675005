// Durable means on the disk: data, and the directory entries that lead to it (fsync(2)).
import fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf } from '../../model/errors.ts';

/** Writes a whole small file and syncs it; its directory is the caller's. */
export async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await fs.open(path, 'w');
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes renames and new names in a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  const dir = await fs.open(path, 'r');
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
    if ((await makeIfParent(path)) === 'no-parent') await fs.mkdir(path);
  }
}

async function makeIfParent(path: string): Promise<'there' | 'no-parent'> {
  try {
    await fs.mkdir(path);
  } catch (error) {
    const code = errnoOf(error);
    if (code === 'ENOENT' && dirname(path) !== path) return 'no-parent';
    if (code === 'EEXIST' && (await fs.stat(path)).isDirectory()) return 'there';
    throw error;
  }
  await syncDirectory(dirname(path));
  return 'there';
}
