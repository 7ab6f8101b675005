// Removes a directory with everything below it, whatever a program has left there. Names are read a few at a time,
// because a million of them may not fit into memory. At most two directories are open, however deep the tree is: what
// is deeper than two levels is moved up. Both are held by their descriptors, so a directory that is swapped for a link
// meanwhile leads nowhere. Nothing at the target of a link or on another file system is touched.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath } from '../model/path.ts';

/** Names that are read at once. */
const NAMES_AT_ONCE = 512;
/** Some file systems skip names while others are removed, and a program that still runs may make new ones. */
const MOST_PASSES = 100;
/** The limit for a tree from which directories are moved up: each pass removes one level. */
const MOST_LEVELS = 100_000;
/** Entries that are removed before other work has its turn. A call takes some 10 us, a promise ten times that. */
const AT_ONCE = 32;

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Does nothing if the file or directory does not exist. Throws like unlink(2) and rmdir(2). */
export async function removeTree(path: string): Promise<void> {
  const isDirectory = fs.lstatSync(encodePath(path), { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (tryRemove({ path, isDirectory })) return;
  await emptyDirectory(path);
  fs.rmdirSync(encodePath(path));
}

/** Removes everything in a directory, but not the directory itself. */
export async function emptyDirectory(dir: string): Promise<void> {
  const top = hold(dir);
  if (top === undefined) return;
  try {
    const { dev } = fs.fstatSync(top.fd, { bigint: true });
    await empty(top, MOST_LEVELS, async (full) => {
      const inner = hold(full);
      if (inner === undefined) return;
      try {
        if (fs.fstatSync(inner.fd, { bigint: true }).dev !== dev) return;
        await empty(inner, MOST_PASSES, async (deeper) =>
          fs.renameSync(encodePath(deeper), `${top.at}/${randomUUID()}`),
        );
      } finally {
        fs.closeSync(inner.fd);
      }
    });
  } finally {
    fs.closeSync(top.fd);
  }
}

interface Held {
  readonly fd: number;
  readonly at: string;
}

/** Opens a directory and holds it. Undefined if it is not a directory (any more). */
function hold(dir: string): Held | undefined {
  try {
    const fd = fs.openSync(encodePath(dir), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
    return { fd, at: `/proc/self/fd/${fd}` };
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** Removes all entries. Calls `clear` for each directory that is not empty, then removes it. */
async function empty(
  { at }: Held,
  mostPasses: number,
  clear: (full: string) => Promise<void>,
): Promise<void> {
  for (let pass = 0, count = 1; pass < mostPasses && count > 0; pass += 1) {
    count = 0;
    // Names as bytes: a program may use any.
    const encoding = 'buffer' as BufferEncoding;
    // oxlint-disable-next-line no-await-in-loop -- a pass sees what the one before it has left
    for await (const entry of await fs.promises.opendir(at, { encoding, bufferSize: NAMES_AT_ONCE })) {
      if (count % AT_ONCE === 0) await nextTurn();
      count += 1;
      const one = {
        path: `${at}/${decodePath(entry.name as unknown as Buffer)}`,
        isDirectory: entry.isDirectory(),
      };
      if (tryRemove(one)) continue;
      await clear(one.path);
      tryRemove(one);
    }
  }
}

interface Found {
  readonly path: string;
  readonly isDirectory: boolean;
}

/** False if it is a directory that is not empty. */
function tryRemove({ path, isDirectory }: Found): boolean {
  try {
    if (isDirectory) fs.rmdirSync(encodePath(path));
    else fs.unlinkSync(encodePath(path));
  } catch (error) {
    const code = errnoOf(error);
    // rmdir(2) may give either.
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false;
    if (!isGone(error)) throw error;
  }
  return true;
}

/** True if it does not exist any more, or something else has its name: the next pass looks again. */
function isGone(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP'].includes(errnoOf(error) ?? '');
}
