// Makes a file visible in the store, whole or not at all: a temporary, synced, then renamed into place. A kill
// at any instant leaves the earlier object and at most a temporary, which sweep removes.
import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import fs from 'node:fs/promises';
import { dirname } from 'node:path';
import { errnoOf } from '../../model/errors.ts';
import { reached } from '../../native/failpoint.ts';
import { renameNoReplace } from '../../native/files.ts';
import type { PutOptions, PutOutcome } from '../contract/store.ts';
import { dropMeta, writeMeta, type Layout } from './layout.ts';
import { makeDirectory, syncDirectory } from './sync.ts';

/** Beside each temporary: the key that it was meant for. */
const KEY_SUFFIX = '.key';

export async function putFile(
  layout: Layout,
  key: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: PutOptions,
): Promise<PutOutcome> {
  const path = layout.objectPath(key);
  if (options.ifAbsent === true && (await inodeOf(path)) !== undefined) return 'exists';
  const temporary = `${layout.tmp}/${randomUUID()}`;
  await makeDirectory(layout.tmp, layout.root);
  try {
    await fs.writeFile(temporary + KEY_SUFFIX, key);
    reached('file-put.key-noted');
    const written = await writeBody(temporary, body, options);
    reached('file-put.body-written');
    await writeMeta(layout, key, written, options.meta);
    reached('file-put.meta-written');
    await makeDirectory(dirname(path), layout.root);
    const outcome = await place(layout, { key, path, temporary }, options.ifAbsent === true);
    if (outcome === 'exists') await dropMeta(layout, key, written.ino);
    return outcome;
  } finally {
    await fs.rm(temporary, { force: true });
    await fs.rm(temporary + KEY_SUFFIX, { force: true });
  }
}

async function writeBody(
  path: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { signal, onSent, release }: PutOptions,
): Promise<BigIntStats> {
  const file = await fs.open(path, 'wx');
  try {
    for await (const chunk of body) {
      signal?.throwIfAborted();
      await file.writeFile(chunk);
      onSent?.(chunk.byteLength);
      release?.(chunk);
    }
    signal?.throwIfAborted();
    await file.sync();
    return await file.stat({ bigint: true });
  } finally {
    await file.close();
  }
}

async function place(
  layout: Layout,
  { key, path, temporary }: { readonly key: string; readonly path: string; readonly temporary: string },
  ifAbsent: boolean,
): Promise<PutOutcome> {
  const replaced = await inodeOf(path);
  if (ifAbsent) {
    if (!renameNoReplace(temporary, path)) return 'exists';
  } else {
    await fs.rename(temporary, path);
  }
  reached('file-put.placed');
  await syncDirectory(dirname(path));
  reached('file-put.synced');
  // Only the metadata of the object that we replaced: another writer may have prepared its own meanwhile.
  if (replaced !== undefined) await dropMeta(layout, key, replaced);
  return 'stored';
}

async function inodeOf(path: string): Promise<bigint | undefined> {
  try {
    return (await fs.lstat(path, { bigint: true })).ino;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Removes the temporaries of interrupted puts of keys that are `mine`. A note without a key is of a put that was killed
 * before it wrote one: it has no temporary, and goes, too. A put that is just about to write its key does not need the
 * note; only if it is killed as well, its temporary stays.
 */
export async function sweepTemporaries(
  layout: Layout,
  prefix: string,
  mine: (key: string) => boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  const names = await fs.readdir(layout.tmp).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  });
  for (const name of names.filter((entry) => entry.endsWith(KEY_SUFFIX))) {
    signal?.throwIfAborted();
    const noted = `${layout.tmp}/${name}`;
    const key = await readNote(noted);
    if (key === undefined) continue;
    if (key !== '' && !(key.startsWith(prefix) && mine(key))) continue;
    await fs.rm(noted.slice(0, -KEY_SUFFIX.length), { force: true });
    await fs.rm(noted, { force: true });
  }
}

/** Undefined when the put has ended meanwhile. */
async function readNote(path: string): Promise<string | undefined> {
  try {
    return await fs.readFile(path, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
