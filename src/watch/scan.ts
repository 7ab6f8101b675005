// The walk over the work directory, for what no event has told. It never follows a symbolic link, and a
// directory that vanishes under it is no error: whoever removed or moved it has caused an event.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { errnoOf } from '../core/errors.ts';
import type { Interest } from '../core/events.ts';
import type { FileFacts } from '../core/fingerprint.ts';
import { decodePath, encodePath, joinPath, type RelPath } from '../core/path.ts';
import { fileFacts } from '../native/facts.ts';

export interface FoundFile {
  readonly path: RelPath;
  /** A symbolic link; else a regular file. */
  readonly link: boolean;
  /** lstat(2). */
  readonly facts: FileFacts;
}

export interface Walk {
  /** Absolute path of the work directory. */
  readonly root: string;
  readonly interest: Interest;
  /** Called before a directory is read: the moment for its watch. False: it is no directory any more. */
  readonly enter?: (dir: RelPath) => boolean;
  /** A directory could not be read; nothing below it was looked at. */
  readonly onUnreadable: (dir: RelPath, error: unknown) => void;
}

/** Entries between two pauses: a few ms, so that events are read long before the kernel's queue is full. */
const ENTRIES_PER_TURN = 256;

/** The declared files and links below `from`, one array for each directory. Without a pause. */
export function* listTree(walk: Walk, from: RelPath = ''): Generator<readonly RelPath[]> {
  const waiting = [from];
  for (let dir = waiting.pop(); dir !== undefined; dir = waiting.pop()) {
    if (!walk.interest.canHold(dir) || walk.enter?.(dir) === false) continue;
    const files: RelPath[] = [];
    for (const entry of entriesOf(walk, dir)) {
      const path = joinPath(dir, entry.name);
      if (entry.isDirectory()) waiting.push(path);
      else if ((entry.isFile() || entry.isSymbolicLink()) && walk.interest.wants(path)) files.push(path);
    }
    yield files;
  }
}

/** The same in pieces, with a pause after each in which events are read and other work goes on. */
export async function* listTreeInTurns(walk: Walk, signal: AbortSignal): AsyncGenerator<readonly RelPath[]> {
  let left = ENTRIES_PER_TURN;
  for (const files of listTree(walk)) {
    left -= 1;
    for (let at = 0; at === 0 || at < files.length; at += ENTRIES_PER_TURN) {
      const piece = files.slice(at, at + ENTRIES_PER_TURN);
      if (piece.length > 0) yield piece;
      left -= piece.length;
      if (left > 0) continue;
      left = ENTRIES_PER_TURN;
      // oxlint-disable-next-line no-await-in-loop -- the pause
      await setImmediate();
      signal.throwIfAborted();
    }
  }
}

/** lstat(2) of one path; undefined when it is gone, out of reach, or neither a regular file nor a link. */
export function lookAt(root: string, path: RelPath): FoundFile | undefined {
  try {
    const stat = fs.lstatSync(encodePath(`${root}/${path}`), { bigint: true, throwIfNoEntry: false });
    return stat === undefined ? undefined : foundFile(path, stat);
  } catch (error) {
    if (!hasVanished(error) && errnoOf(error) !== 'EACCES') throw error;
    return undefined;
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
    const looked =
      lookOn === 'pool' ? await lookAtAll(walk, paths) : paths.map((path) => lookAtListed(walk, path));
    yield looked.filter((file) => file !== undefined);
  }
}

/** Every declared file of the tree. */
export async function findAll(walk: Walk, lookOn: LookOn, signal?: AbortSignal): Promise<FoundFile[]> {
  const found: FoundFile[] = [];
  for await (const files of findInTurns(walk, lookOn, signal)) for (const file of files) found.push(file);
  return found;
}

function lookAtAll(walk: Walk, paths: readonly RelPath[]): Promise<(FoundFile | undefined)[]> {
  return Promise.all(
    paths.map(async (path) => {
      try {
        return foundFile(path, await fs.promises.lstat(encodePath(`${walk.root}/${path}`), { bigint: true }));
      } catch (error) {
        return outOfReach(walk, path, error);
      }
    }),
  );
}

function lookAtListed(walk: Walk, path: RelPath): FoundFile | undefined {
  try {
    return foundFile(path, fs.lstatSync(encodePath(`${walk.root}/${path}`), { bigint: true }));
  } catch (error) {
    return outOfReach(walk, path, error);
  }
}

/** Its directory may be listed and not be entered: then what is in it is as little seen as if it could not. */
function outOfReach(walk: Walk, path: RelPath, error: unknown): undefined {
  if (errnoOf(error) === 'EACCES')
    walk.onUnreadable(path.slice(0, path.lastIndexOf('/') + 1).replace(/\/$/, ''), error);
  else if (!hasVanished(error)) throw error;
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

interface Entry {
  readonly name: string;
  isDirectory(): boolean;
  isFile(): boolean;
  isSymbolicLink(): boolean;
}

function entriesOf(walk: Walk, dir: RelPath): readonly Entry[] {
  const path = encodePath(dir === '' ? walk.root : `${walk.root}/${dir}`);
  try {
    return readEntries(path);
  } catch (error) {
    if (!hasVanished(error)) walk.onUnreadable(dir, error);
    return [];
  }
}

/** Names as strings first, which is twice as fast; as bytes where one of them is not UTF-8. */
function readEntries(path: string | Buffer): readonly Entry[] {
  const entries = fs.readdirSync(path, { withFileTypes: true });
  if (!entries.some((entry) => entry.name.includes('\uFFFD'))) return entries;
  return fs.readdirSync(path, { withFileTypes: true, encoding: 'buffer' }).map((entry) => ({
    name: decodePath(entry.name),
    isDirectory: () => entry.isDirectory(),
    isFile: () => entry.isFile(),
    isSymbolicLink: () => entry.isSymbolicLink(),
  }));
}
