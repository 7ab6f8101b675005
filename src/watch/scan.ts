// The walk over the work directory, which finds files that no event reported. Each step stays beneath the work
// directory. A directory that vanishes during the walk is no error: its removal or move has caused an event.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import type { FileFacts, Interest } from '../model/file/file-state.ts';
import { encodePath, joinPath, type RelPath } from '../model/path.ts';
import { type HeldDirectory, holdDirectory, lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { type DirectoryEntry, entriesIn } from '../native/directory-entries.ts';
import { fileFacts } from '../native/files.ts';
import { roomInHeap, tooManyForHeap } from '../native/heap.ts';

export interface FoundFile {
  readonly path: RelPath;
  /** A symbolic link; else a regular file. */
  readonly link: boolean;
  /** lstat(2). */
  readonly facts: FileFacts;
}

export interface Walk {
  /** The work directory. */
  readonly root: WorkDir;
  readonly interest: Interest;
  /**
   * Called just before a directory is read, with an absolute path that leads to it, so that its watch can be added.
   * False: do not read the directory.
   */
  readonly enter?: (dir: RelPath, at: string) => boolean;
  /** A symbolic link at which a declared pattern may lead on, if it leads to a directory: nothing behind it is looked at. */
  readonly onLink?: (link: RelPath) => void;
  /** A directory could not be read, and nothing below it was looked at; or a file could not be looked at. */
  readonly onUnreadable: (path: RelPath, error: unknown) => void;
}

const NARROWER = 'use narrower patterns';
/** Entries between two pauses, about 1 ms: other tasks wait meanwhile. */
const ENTRIES_PER_TURN = 64;

/** What the heap needs for the path of a directory beside its text. */
const PATH_BYTES = 150;

/** The declared files and links below `from`, in pieces of one directory each. Without pauses. */
export function* listTree(walk: Walk, from: RelPath = ''): Generator<readonly RelPath[]> {
  const waiting: RelPath[] = [];
  let leftBytes = roomInHeap();
  let isTold = false;
  const add = (dir: RelPath): void => {
    if (!walk.interest.canHold(dir)) return;
    if (leftBytes >= 0) {
      waiting.push(dir);
      leftBytes -= PATH_BYTES + dir.length;
    } else if (!isTold) {
      isTold = true;
      walk.onUnreadable(dir, tooManyForHeap('directories to look into', waiting.length, NARROWER));
    }
  };
  add(from);
  for (let dir = waiting.pop(); dir !== undefined; dir = waiting.pop()) {
    leftBytes += PATH_BYTES + dir.length;
    yield* listDirectory(walk, dir, add);
  }
}

/** The declared files and links of one directory, which may hold more names than fit into memory. `onDirectory` gets its subdirectories. */
export function* listDirectory(
  walk: Walk,
  dir: RelPath,
  onDirectory: (below: RelPath) => void = () => undefined,
): Generator<readonly RelPath[]> {
  let files: RelPath[] = [];
  let left = ENTRIES_PER_TURN;
  for (const entry of entriesOf(walk, dir)) {
    const path = joinPath(dir, entry.name);
    if (entry.isSymbolicLink() && walk.interest.canHold(path)) walk.onLink?.(path);
    if (entry.isDirectory()) onDirectory(path);
    else if ((entry.isFile() || entry.isSymbolicLink()) && walk.interest.wants(path)) files.push(path);
    left -= 1;
    if (left > 0) continue;
    yield files;
    files = [];
    left = ENTRIES_PER_TURN;
  }
  yield files;
}

/** As {@link listTree}, with pauses in which events are read and other work runs. */
export async function* listTreeInTurns(walk: Walk, signal: AbortSignal): AsyncGenerator<readonly RelPath[]> {
  let left = ENTRIES_PER_TURN;
  for (const files of listTree(walk)) {
    if (files.length > 0) yield files;
    // Opening a directory takes as long as looking at a file.
    left -= files.length + 1;
    if (left > 0) continue;
    left = ENTRIES_PER_TURN;
    // oxlint-disable-next-line no-await-in-loop -- the pause
    await setImmediate();
    signal.throwIfAborted();
  }
}

/** lstat(2) of one path; undefined when it is gone, out of reach, or neither a regular file nor a link. */
export function lookAt(root: WorkDir, path: RelPath): FoundFile | undefined {
  const found = lookClosely(root, path);
  return found === 'gone' || 'error' in found ? undefined : found;
}

/** The error of a look says nothing about whether the file is there (a dead mount, a bad disk, a shut directory). */
export interface Unreadable {
  readonly error: unknown;
}

/** As {@link lookAt}. */
export function lookClosely(root: WorkDir, path: RelPath): FoundFile | 'gone' | Unreadable {
  try {
    const stat = lstatBeneath(root, path);
    return (stat && foundFile(path, stat)) ?? 'gone';
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return hasVanished(error) ? 'gone' : { error };
  }
}

/** Where lstat runs: `pool` where it may be slow, so that a network file system does not hold up the rest. */
export type LookOn = 'thread' | 'pool';

/** Every declared file of the tree, in pieces. */
export async function* findInTurns(
  walk: Walk,
  lookOn: LookOn,
  signal = new AbortController().signal,
): AsyncGenerator<readonly FoundFile[]> {
  for await (const paths of listTreeInTurns(walk, signal)) {
    yield (await lookAtPiece(walk, paths, lookOn)).filter((file) => file !== undefined);
  }
}

/** What the heap needs for a {@link FoundFile} beside its path. */
const FOUND_BYTES = 250;

/** Every declared file of the tree. Throws status 69 if they do not fit into half of the heap. */
export async function findAll(walk: Walk, lookOn: LookOn, signal?: AbortSignal): Promise<FoundFile[]> {
  const found: FoundFile[] = [];
  let leftBytes = roomInHeap();
  for await (const files of findInTurns(walk, lookOn, signal)) {
    for (const file of files) {
      found.push(file);
      leftBytes -= FOUND_BYTES + file.path.length;
    }
    if (leftBytes < 0) throw tooManyForHeap(`declared files in ${walk.root.path}`, found.length, NARROWER);
  }
  return found;
}

/** All files of a piece are in one directory, which stays open while they are looked at. */
async function lookAtPiece(
  walk: Walk,
  paths: readonly RelPath[],
  lookOn: LookOn,
): Promise<readonly (FoundFile | undefined)[]> {
  const dir = directoryOf(paths[0] ?? '');
  const held = hold(walk, dir);
  if (held === undefined) return [];
  const full = (path: RelPath): string | Buffer =>
    encodePath(`${held.at}/${path.slice(path.lastIndexOf('/') + 1)}`);
  const look = (path: RelPath): FoundFile | undefined => {
    try {
      return foundFile(path, fs.lstatSync(full(path), { bigint: true }));
    } catch (error) {
      return outOfReach(walk, path, error);
    }
  };
  const lookLater = async (path: RelPath): Promise<FoundFile | undefined> => {
    try {
      return foundFile(path, await fs.promises.lstat(full(path), { bigint: true }));
    } catch (error) {
      return outOfReach(walk, path, error);
    }
  };
  try {
    return lookOn === 'pool' ? await Promise.all(paths.map(lookLater)) : paths.map(look);
  } finally {
    held.close();
  }
}

/**
 * A directory may be readable but not searchable (no `x`): then nothing in it can be seen, as if it could not be
 * listed. Any other error is one file's (EIO), or that of a mount (ENOTCONN).
 */
function outOfReach(walk: Walk, path: RelPath, error: unknown): undefined {
  if (errnoOf(error) === undefined) throw error;
  if (!hasVanished(error)) walk.onUnreadable(errnoOf(error) === 'EACCES' ? directoryOf(path) : path, error);
}

function directoryOf(path: RelPath): RelPath {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** The path, or a component of it, was removed or replaced since it was listed. */
export function hasVanished(error: unknown): boolean {
  const code = errnoOf(error);
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP';
}

function foundFile(path: RelPath, stat: fs.BigIntStats): FoundFile | undefined {
  if (!stat.isFile() && !stat.isSymbolicLink()) return undefined;
  return { path, link: stat.isSymbolicLink(), facts: fileFacts(stat) };
}

function* entriesOf(walk: Walk, dir: RelPath): Generator<DirectoryEntry> {
  const held = hold(walk, dir);
  if (held === undefined) return;
  try {
    if (walk.enter?.(dir, held.at) !== false) yield* entriesIn(held.at);
  } catch (error) {
    if (!hasVanished(error)) walk.onUnreadable(dir, error);
  } finally {
    held.close();
  }
}

/** Undefined if the directory is gone, no longer a directory, or out of reach. */
function hold(walk: Walk, dir: RelPath): HeldDirectory | undefined {
  try {
    return holdDirectory(walk.root, dir);
  } catch (error) {
    if (!hasVanished(error)) walk.onUnreadable(dir, error);
    return undefined;
  }
}
