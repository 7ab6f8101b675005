// Lists a directory in pieces: a program may leave more names in one than the heap can hold.
import fs from 'node:fs';
import { decodePath, encodePath, showPath } from '../model/path.ts';
import { roomInHeap, tooManyForHeap } from './heap.ts';

/** Names that are read at once: an ordinary directory is read in one go. */
const NAMES_AT_ONCE = 4096;

export interface DirectoryEntry {
  /** See {@link decodePath}. */
  readonly name: string;
  isDirectory(): boolean;
  isFile(): boolean;
  isSymbolicLink(): boolean;
}

/**
 * The entries of a directory, without `.` and `..`. The directory stays open until the last one, or until the caller
 * leaves the loop. What is made or removed meanwhile may be among them or not (readdir(3)). Throws as opendir(3) does:
 * ENOENT, ENOTDIR, EACCES, EMFILE.
 */
export function* entriesIn(path: string | Buffer): Generator<DirectoryEntry> {
  // Names as strings are read twice as fast as bytes. Those that are not UTF-8 come in a second pass.
  let isAllText = true;
  for (const entry of readIn(path, 'utf8')) {
    if (isText(entry.name)) yield entry;
    else isAllText = false;
  }
  if (isAllText) return;
  for (const entry of readIn<Buffer>(path, 'buffer')) {
    if (isText(entry.name.toString())) continue;
    yield {
      name: decodePath(entry.name),
      isDirectory: () => entry.isDirectory(),
      isFile: () => entry.isFile(),
      isSymbolicLink: () => entry.isSymbolicLink(),
    };
  }
}

/** What the heap needs for an entry beside its name. */
const ENTRY_BYTES = 200;

/**
 * All of them at once, for a caller that moves or removes them. Throws as {@link entriesIn}, and status 69 if they do not
 * fit into half of the heap.
 */
export function allEntriesIn(path: string | Buffer): readonly DirectoryEntry[] {
  const entries: DirectoryEntry[] = [];
  let leftBytes = roomInHeap();
  for (const entry of entriesIn(path)) {
    entries.push(entry);
    leftBytes -= ENTRY_BYTES + entry.name.length;
    if (leftBytes < 0)
      throw tooManyForHeap(
        `names in ${showPath(typeof path === 'string' ? path : decodePath(path))}`,
        entries.length,
        'remove what nobody needs there',
      );
  }
  return entries;
}

export function isEmptyDirectory(path: string | Buffer): boolean {
  const dir = fs.opendirSync(bytesOf(path), { encoding: 'buffer' as BufferEncoding });
  try {
    return dir.readSync() === null;
  } finally {
    dir.closeSync();
  }
}

function bytesOf(path: string | Buffer): string | Buffer {
  return typeof path === 'string' ? encodePath(path) : path;
}

/** Node puts U+FFFD in place of each byte that is not UTF-8. */
function isText(name: string): boolean {
  return !name.includes('\uFFFD');
}

/** The types do not know that names can be bytes. */
function* readIn<Name extends string | Buffer = string>(
  path: string | Buffer,
  encoding: 'utf8' | 'buffer',
): Generator<fs.Dirent<Name>> {
  const options = { encoding: encoding as BufferEncoding, bufferSize: NAMES_AT_ONCE };
  const dir = fs.opendirSync(bytesOf(path), options);
  try {
    for (let entry = dir.readSync(); entry !== null; entry = dir.readSync())
      yield entry as unknown as fs.Dirent<Name>;
  } finally {
    dir.closeSync();
  }
}
