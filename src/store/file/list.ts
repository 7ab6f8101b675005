// Lists a directory tree as an object store would: whole keys in byte order, nothing of our own.
import type { Dirent } from 'node:fs';
import fs from 'node:fs/promises';
import { errnoOf } from '../../model/errors.ts';
import { joinPath } from '../../model/path.ts';
import type { ListedObject } from '../contract/store.ts';
import type { Layout } from './layout.ts';

/** All objects whose key starts with `prefix`. A store that does not exist yet is empty. */
export async function* listFiles(
  layout: Layout,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  const folder = prefix.slice(0, Math.max(0, prefix.lastIndexOf('/')));
  yield* walk(layout, folder, prefix, signal);
}

/** Names of directories in the one that `prefix` names. */
export async function listFileFolders(layout: Layout, prefix: string): Promise<readonly string[]> {
  const entries = await entriesInKeyOrder(layout, prefix.slice(0, -1));
  return entries.filter(({ entry }) => entry.isDirectory()).map(({ entry }) => entry.name);
}

async function* walk(
  layout: Layout,
  folder: string,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  for (const { entry, sortName } of await entriesInKeyOrder(layout, folder)) {
    signal?.throwIfAborted();
    const key = joinPath(folder, entry.name);
    if (entry.isDirectory()) {
      if (prefix.startsWith(`${key}/`) || `${key}/`.startsWith(prefix))
        yield* walk(layout, key, prefix, signal);
    } else if (joinPath(folder, sortName).startsWith(prefix)) {
      const sizeBytes = await sizeOf(layout.objectPath(key));
      if (sizeBytes !== undefined) yield { key, sizeBytes };
    }
  }
}

/** A folder's name counts with its slash: `a.b` comes before `a/b`. */
async function entriesInKeyOrder(
  layout: Layout,
  folder: string,
): Promise<readonly { readonly entry: Dirent; readonly sortName: string }[]> {
  const dir = folder === '' ? layout.root : `${layout.root}/${folder}`;
  const entries = await fs.readdir(dir, { withFileTypes: true }).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return [];
    throw error;
  });
  return entries
    .filter((entry) => !layout.isOurs(entry.name, dir))
    .map((entry) => ({ entry, sortName: entry.isDirectory() ? `${entry.name}/` : entry.name }))
    .toSorted((a, b) => Buffer.compare(Buffer.from(a.sortName), Buffer.from(b.sortName)));
}

/** Follows a link to a file (people stage inputs so); undefined for what is no file, or gone since. */
async function sizeOf(path: string): Promise<number | undefined> {
  try {
    const stat = await fs.stat(path);
    return stat.isFile() ? stat.size : undefined;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
