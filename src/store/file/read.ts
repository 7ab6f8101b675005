// Reading from the file store. Size, metadata and bytes are all of one open file: a put that replaces the object
// meanwhile changes none of them. A listing is that of an object store: whole keys in byte order, nothing of our own.
import type { BigIntStats, Dirent } from 'node:fs';
import fs from 'node:fs/promises';
import { errnoOf } from '../../model/errors.ts';
import { joinPath } from '../../model/path.ts';
import { releasing } from '../contract/body.ts';
import {
  StoreError,
  type GetOptions,
  type GotObject,
  type ListedObject,
  type ObjectHead,
  type ObjectMeta,
} from '../contract/store.ts';
import { readMeta, type Layout } from './layout.ts';

const CHUNK_BYTES = 2 ** 20;

interface OpenObject {
  readonly file: fs.FileHandle;
  readonly stat: BigIntStats;
  readonly meta: ObjectMeta;
}

export async function headFile(layout: Layout, key: string): Promise<ObjectHead | undefined> {
  const found = await openObject(layout, key);
  await found?.file.close();
  return found === undefined ? undefined : headOf(key, found);
}

export async function getFile(
  layout: Layout,
  key: string,
  options: GetOptions,
): Promise<GotObject | undefined> {
  const found = await openObject(layout, key);
  if (found === undefined) return undefined;
  const head = headOf(key, found);
  const first = options.range?.first ?? 0;
  const end = Math.min((options.range?.last ?? Infinity) + 1, head.sizeBytes);
  if (options.range !== undefined && first >= end) {
    await found.file.close();
    throw new StoreError(
      'refused',
      `get ${layout.root}/${key}: no bytes from ${first} on, it has ${head.sizeBytes}`,
    );
  }
  const { file } = found;
  const chunks = readBytes(file, { first, end }, `${layout.root}/${key}`, options.signal);
  return { ...head, body: releasing(chunks, () => file.close()) };
}

function headOf(key: string, { stat, meta }: OpenObject): ObjectHead {
  return { key, sizeBytes: Number(stat.size), meta, modifiedMs: Number(stat.mtimeMs) };
}

async function openObject(layout: Layout, key: string): Promise<OpenObject | undefined> {
  const path = layout.objectPath(key);
  for (;;) {
    const file = await fs.open(path, 'r').catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return undefined;
      throw error;
    });
    if (file === undefined) return undefined;
    const found = await describe(layout, { key, path, file }).catch(async (error: unknown) => {
      await file.close();
      throw error;
    });
    if (found !== 'replaced') return found;
    await file.close();
  }
}

async function describe(
  layout: Layout,
  { key, path, file }: { readonly key: string; readonly path: string; readonly file: fs.FileHandle },
): Promise<OpenObject | 'replaced' | undefined> {
  const stat = await file.stat({ bigint: true });
  if (!stat.isFile()) {
    await file.close();
    return undefined;
  }
  const meta = await readMeta(layout, key, stat);
  if (meta !== undefined) return { file, stat, meta };
  // None: it was put there by hand, or it was replaced and its metadata is gone already.
  const now = await fs.stat(path, { bigint: true }).catch(() => undefined);
  return now?.ino === stat.ino ? { file, stat, meta: {} } : 'replaced';
}

async function* readBytes(
  file: fs.FileHandle,
  { first, end }: { readonly first: number; readonly end: number },
  where: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  try {
    for (let at = first; at < end;) {
      signal?.throwIfAborted();
      const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK_BYTES, end - at));
      const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
      if (bytesRead === 0)
        throw new StoreError('transient', `get ${where}: it ended at byte ${at} of ${end}`);
      at += bytesRead;
      yield chunk.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

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
