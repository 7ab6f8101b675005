// Objects as files. A put is atomic: it writes a temporary, syncs it, and renames it into place. A kill at any time
// leaves the earlier object and at most a temporary. A read takes size, metadata and bytes from one open file, so a
// concurrent put that replaces the object does not change them.
import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import fs from 'node:fs/promises';
import { errnoOf } from '../../model/errors.ts';
import { joinPath } from '../../model/path.ts';
import { readAhead } from '../../model/waiting.ts';
import { reached } from '../../native/failpoint.ts';
import { renameNoReplaceAsync } from '../../native/files.ts';
import { type Links, openFile, type OpenFile, StrangersLink } from '../../native/followed-links.ts';
import { roomInHeap, tooManyForHeap } from '../../native/heap.ts';
import { firstChunks, joined, releasing } from '../contract/driver.ts';
import {
  StoreError,
  type GetOptions,
  type GotObject,
  type IsMine,
  type ListedObject,
  type ObjectHead,
  type ObjectMeta,
  type Precondition,
  type PutOptions,
  type PutOutcome,
} from '../contract/store.ts';
import {
  createFile,
  dropMeta,
  inFolder,
  inMadeFolder,
  readMeta,
  readOwn,
  removeOwn,
  syncDirectory,
  unlessNoObject,
  writeMeta,
  type Layout,
} from './directory.ts';

/** A file next to each temporary, with the key of the put. */
const KEY_SUFFIX = '.key';
/** A file next to each temporary with its metadata, until they get their own name. */
const META_SUFFIX = '.meta';
/** Bytes per read. */
const CHUNK_BYTES = 2 ** 20;

export interface FilePutOptions extends PutOptions {
  /** For a copy: the mode of its source. Its metadata may be forged. */
  readonly mostMode?: number | undefined;
}

export async function putFile(
  layout: Layout,
  key: string,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: FilePutOptions,
): Promise<PutOutcome> {
  const taken = await refusal(layout, key, options.precondition);
  if (taken !== undefined) return taken;
  return inMadeFolder(layout, { folder: layout.tmp, name: randomUUID() }, (temporary) =>
    putBy(layout, { key, temporary }, body, options),
  );
}

async function putBy(
  layout: Layout,
  { key, temporary }: { readonly key: string; readonly temporary: string },
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: FilePutOptions,
): Promise<PutOutcome> {
  try {
    await fs.writeFile(temporary + KEY_SUFFIX, key, { flag: 'wx', mode: layout.ownMode() });
    reached('file-put.key-noted');
    const file = await createFile(temporary, layout.objectMode(options.meta, options.mostMode));
    const written = await writeBody(file, body, options);
    reached('file-put.body-written');
    await writeMeta(layout, { key, file: written, meta: options.meta, temporary: temporary + META_SUFFIX });
    reached('file-put.meta-written');
    const { precondition, signal } = options;
    const no = await place(layout, { key, from: temporary, precondition, signal });
    if (no === undefined) return { kind: 'stored', tag: tagOf(written, options.meta) };
    await dropMeta(layout, key, written.ino);
    return no;
  } finally {
    // A failed removal must not replace the outcome. A sweep removes what stays.
    await removeOwn(temporary).catch(() => undefined);
    await removeOwn(temporary + KEY_SUFFIX).catch(() => undefined);
  }
}

interface Promotion {
  readonly from: string;
  readonly to: string;
  readonly precondition: Precondition | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Promotes with one rename; undefined if `from` does not exist. The metadata have both names until the rename is done.
 */
export async function promoteFile(
  layout: Layout,
  { from, to, precondition, signal }: Promotion,
): Promise<PutOutcome | undefined> {
  const found = await openObject(layout, from, 'refused');
  if (found === undefined) return undefined;
  await found.file.close();
  const { stat, meta } = found;
  await inMadeFolder(layout, { folder: layout.tmp, name: `${randomUUID()}${META_SUFFIX}` }, (temporary) =>
    writeMeta(layout, { key: to, file: stat, meta, temporary }),
  );
  return inFolder(layout, layout.spotOf(from), async (source, at) => {
    const no = await place(layout, { key: to, from: source, precondition, signal });
    if (no !== undefined) {
      await dropMeta(layout, to, stat.ino);
      return no;
    }
    await syncDirectory(at);
    await dropMeta(layout, from, stat.ino);
    return { kind: 'stored', tag: tagOf(stat, meta) };
  });
}

/** The outcome of a write whose precondition fails on the current object; undefined if it holds. */
async function refusal(
  layout: Layout,
  key: string,
  precondition: Precondition | undefined,
): Promise<PutOutcome | undefined> {
  if (precondition?.kind === 'absent')
    return (await inFolder(layout, layout.spotOf(key), isTaken).catch(unlessMissing)) === true
      ? { kind: 'exists' }
      : undefined;
  if (precondition?.kind !== 'is') return undefined;
  const there = await headFile(layout, key);
  return there?.tag === precondition.tag ? undefined : { kind: 'replaced-meanwhile' };
}

/** The tag of an object contains its push id. A file that a user put there is identified by inode, size and time. */
function tagOf({ ino, size, mtimeNs }: BigIntStats, meta: ObjectMeta): string {
  return meta['push'] ?? `${ino}-${size}-${mtimeNs}`;
}

async function writeBody(
  file: fs.FileHandle,
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { signal, onSent, release }: PutOptions,
): Promise<BigIntStats> {
  try {
    for await (const chunk of body) {
      signal?.throwIfAborted();
      await file.writeFile(chunk);
      // A put that was given up has no caller any more, and the memory of its chunks may hold something else.
      signal?.throwIfAborted();
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

interface Placing {
  readonly key: string;
  /** Its folder is held open. */
  readonly from: string;
  readonly precondition: Precondition | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Undefined if the object is in place. */
function place(layout: Layout, placing: Placing): Promise<PutOutcome | undefined> {
  return inMadeFolder(layout, layout.spotOf(placing.key), (path, at) =>
    placeAt(layout, { path, at }, placing),
  );
}

async function placeAt(
  layout: Layout,
  { path, at }: { readonly path: string; readonly at: string },
  { key, from, precondition, signal }: Placing,
): Promise<PutOutcome | undefined> {
  // A rename replaces any file, so the check comes as late as possible.
  const no = precondition?.kind === 'is' ? await refusal(layout, key, precondition) : undefined;
  if (no !== undefined) return no;
  const replaced = await inodeOf(path);
  signal?.throwIfAborted();
  try {
    if (precondition?.kind === 'absent') {
      if (!(await renameNoReplaceAsync(from, path))) return { kind: 'exists' };
    } else {
      await fs.rename(from, path);
    }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    // The sweep of an attempt that has taken over from us removed it. The fence tells us about that attempt; until then
    // we do not give up.
    throw new StoreError('transient', `put ${layout.root}/${key}: its temporary was removed`, {
      cause: error,
    });
  }
  reached('file-put.placed');
  await syncDirectory(at);
  reached('file-put.synced');
  // Removes only the metadata of the object that we replaced: another writer may have prepared its own.
  if (replaced !== undefined) await dropMeta(layout, key, replaced);
  return undefined;
}

/** Throws ELOOP for a link and similar files: they are no objects, and a create-only put does not replace them. */
async function isTaken(path: string): Promise<boolean> {
  if ((await inodeOf(path)) === undefined) return false;
  const stat = await fs.lstat(path);
  if (stat.isFile()) return true;
  throw Object.assign(new Error(`${path} is no file`), { code: 'ELOOP' });
}

async function inodeOf(path: string): Promise<bigint | undefined> {
  try {
    const stat = await fs.lstat(path, { bigint: true });
    // A folder of other objects. The code is that of rename(2).
    if (stat.isDirectory()) throw Object.assign(new Error(`${path} is a directory`), { code: 'EISDIR' });
    return stat.ino;
  } catch (error) {
    return unlessMissing(error);
  }
}

function unlessMissing(error: unknown): undefined {
  if (errnoOf(error) !== 'ENOENT') throw error;
}

interface OpenObject {
  readonly file: fs.FileHandle;
  readonly stat: BigIntStats;
  readonly meta: ObjectMeta;
}

export async function headFile(layout: Layout, key: string): Promise<ObjectHead | undefined> {
  const found = await openObject(layout, key, 'followed');
  await found?.file.close();
  return found === undefined ? undefined : headOf(key, found);
}

export async function getFile(
  layout: Layout,
  key: string,
  options: GetOptions,
  links: Links = 'followed',
): Promise<GotObject | undefined> {
  const found = await openObject(layout, key, links);
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
  const isSame = async (): Promise<boolean> =>
    tagOf(await file.stat({ bigint: true }), found.meta) === head.tag;
  const rest = readBytes(file, { first, end, isSame }, `${layout.root}/${key}`, options.signal);
  const chunks = joined(await firstChunks(rest, options.aheadBytes ?? -1), rest);
  return { ...head, body: releasing(chunks, () => file.close()) };
}

function headOf(key: string, { stat, meta }: OpenObject): ObjectHead {
  return {
    key,
    tag: tagOf(stat, meta),
    sizeBytes: Number(stat.size),
    meta,
    modifiedMs: inDateRange(Number(stat.mtimeMs)),
    permissions: Number(stat.mode & 0o777n),
  };
}

async function openObject(layout: Layout, key: string, links: Links): Promise<OpenObject | undefined> {
  for (;;) {
    const rules = { links, trusted: layout.owner() };
    const opened = await inFolder(layout, layout.spotOf(key), (path) => openFile(path, rules)).catch(
      (error: unknown) => {
        if (error instanceof StrangersLink)
          throw new StoreError('refused', `get ${layout.root}/${key}: ${error.message}`, error);
        return links === 'followed' ? unlessNoObject(error) : unlessMissing(error);
      },
    );
    if (opened === undefined) return undefined;
    const { file } = opened;
    const found = await describe(layout, key, opened).catch(async (error: unknown) => {
      await file.close();
      throw error;
    });
    if (found !== 'replaced') return found;
    await file.close();
  }
}

async function describe(
  layout: Layout,
  key: string,
  { file, isLink }: OpenFile,
): Promise<OpenObject | 'replaced' | undefined> {
  const stat = await file.stat({ bigint: true });
  if (!stat.isFile()) {
    await file.close();
    return undefined;
  }
  // Capture stores no links. So metadata for a link would be a claim about a file of somebody else.
  if (isLink) return { file, stat, meta: {} };
  const meta = await readMeta(layout, key, stat);
  if (meta !== undefined) return { file, stat, meta };
  // No metadata: a user put the file there, or the object was replaced and its metadata is already gone.
  const now = await inFolder(layout, layout.spotOf(key), (path) => fs.lstat(path, { bigint: true })).catch(
    () => undefined,
  );
  return now?.ino === stat.ino ? { file, stat, meta: {} } : 'replaced';
}

interface FileRange {
  readonly first: number;
  /** Exclusive. */
  readonly end: number;
  /** Whether the file is still in the state in which it was opened. */
  readonly isSame: () => Promise<boolean>;
}

async function* readBytes(
  file: fs.FileHandle,
  { first, end, isSame }: FileRange,
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
      // What a user has put there may be written in place.
      if (at === end && !(await isSame()))
        throw new StoreError('transient', `get ${where}: it was written while it was read`);
      yield chunk.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

/**
 * All objects whose keys start with `prefix`, as an object store lists them: complete keys in byte order, without our
 * own files. A store that does not exist yet is empty.
 */
export async function* listFiles(
  layout: Layout,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ListedObject> {
  const folder = prefix.slice(0, Math.max(0, prefix.lastIndexOf('/')));
  const walk: Walk = { layout, prefix, signal };
  yield* below(walk, folder, await wantedIn(walk, folder));
}

interface Walk {
  readonly layout: Layout;
  readonly prefix: string;
  readonly signal: AbortSignal | undefined;
}

/** Names of the directories in the directory `prefix`. */
export async function listFileFolders(layout: Layout, prefix: string): Promise<readonly string[]> {
  const folders = await namesInKeyOrder(layout, prefix.slice(0, -1), (name) => name.endsWith('/'));
  return folders.map((name) => name.slice(0, -1));
}

async function* below(walk: Walk, folder: string, names: readonly string[]): AsyncGenerator<ListedObject> {
  const { layout, signal } = walk;
  if (names.length === 0) return;
  const held = await layout.hold(folder).catch(unlessNoObject);
  if (held === undefined) return; // deleted since
  const looked = readAhead(names, LOOKS_AT_ONCE, async (name) => {
    const isFolder = name.endsWith('/');
    const key = joinPath(folder, isFolder ? name.slice(0, -1) : name);
    return isFolder ? { key, names: await wantedIn(walk, key) } : { key, found: await lookAt(held.at, name) };
  });
  try {
    for await (const { key, names: inside, found } of looked) {
      signal?.throwIfAborted();
      if (inside !== undefined) yield* below(walk, key, inside);
      else if (found !== undefined) yield { key, ...found };
    }
  } finally {
    held.close();
  }
}

/** On a network file system each look is a round trip to the server. */
const LOOKS_AT_ONCE = 32;
/** Names of a directory that one system call or request returns. */
const NAMES_AT_ONCE = 1024;
/** Memory for a name, without its characters. */
const NAME_BYTES = 50;

/** The folder's entries that a key with the prefix may name or pass through. */
function wantedIn({ layout, prefix }: Walk, folder: string): Promise<readonly string[]> {
  return namesInKeyOrder(layout, folder, (name) => {
    const key = joinPath(folder, name);
    return key.startsWith(prefix) || (name.endsWith('/') && prefix.startsWith(key));
  });
}

/**
 * Names in a directory. A folder's name has a trailing slash, because it counts for the order of keys: `a.b` comes
 * before `a/b`.
 */
async function namesInKeyOrder(
  layout: Layout,
  folder: string,
  isWanted: (name: string) => boolean,
): Promise<readonly string[]> {
  const names: string[] = [];
  let leftBytes = roomInHeap();
  const read = async (path: string): Promise<void> => {
    for await (const entry of await fs.opendir(path, { bufferSize: NAMES_AT_ONCE })) {
      const name = entry.isDirectory() ? `${entry.name}/` : entry.name;
      if (layout.isOurs(entry.name, folder) || !isWanted(name)) continue;
      names.push(name);
      leftBytes -= NAME_BYTES + name.length;
      if (leftBytes < 0) throw tooManyForHeap(`names in ${layout.root}/${folder}`, names.length);
    }
  };
  await inFolder(layout, { folder, name: '.' }, read).catch(unlessNoObject);
  return names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Follows a link to a file, because users stage inputs so. Undefined if it is no file, or was deleted since. */
async function lookAt(at: string, name: string): Promise<Omit<ListedObject, 'key'> | undefined> {
  const stat = await fs.stat(`${at}/${name}`).catch(unlessNoObject);
  return stat?.isFile() === true
    ? { sizeBytes: stat.size, modifiedMs: inDateRange(stat.mtimeMs) }
    : undefined;
}

/**
 * Removes the temporaries of interrupted puts for keys that are `mine`. A note without a key belongs to a put that was
 * killed before it wrote the key. Such a put has no temporary, so the note is removed, too. If a running put is just
 * about to write its key, it does not need the note. Only if that put is also killed, its temporary stays. Foreign
 * files stay.
 */
export async function sweepTemporaries(
  layout: Layout,
  prefix: string,
  mine: IsMine,
  signal: AbortSignal | undefined,
): Promise<true> {
  const sweep = async (_: string, at: string): Promise<void> => {
    for await (const name of notesIn(at)) {
      signal?.throwIfAborted();
      const noted = `${at}/${name}`;
      const key = await readOwn(noted);
      // Undefined: the put has ended since.
      if (key === undefined) continue;
      if (key !== '' && !(key.startsWith(prefix) && (await mine(key)))) continue;
      signal?.throwIfAborted();
      const temporary = noted.slice(0, -KEY_SUFFIX.length);
      await removeOwn(temporary);
      await removeOwn(temporary + META_SUFFIX);
      await removeOwn(noted);
    }
  };
  await inFolder(layout, { folder: layout.tmp, name: '.' }, sweep).catch(unlessNoObject);
  return true;
}

async function* notesIn(at: string): AsyncGenerator<string> {
  for await (const entry of await fs.opendir(`${at}/.`, { bufferSize: NAMES_AT_ONCE }))
    if (entry.name.endsWith(KEY_SUFFIX)) yield entry.name;
}

/** Ms from the epoch that a Date can hold (ECMAScript, "Time Values"): a file may have any time. */
const LAST_DATE_MS = 8.64e15;

function inDateRange(ms: number): number {
  return Math.min(Math.max(ms, -LAST_DATE_MS), LAST_DATE_MS);
}
