// Removes a directory with everything below it, whatever a program has left there. Names are read a few at a time,
// because a million of them may not fit into memory. At most two directories are open, however deep the tree is: what
// is deeper than two levels is moved up. Both are held by their descriptors, so a directory that is swapped for a link
// meanwhile leads nowhere. Nothing at the target of a link or on another file system is touched.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath } from '../model/path.ts';
import { O_PATH } from './beneath.ts';

/** Names that are read at once. */
const NAMES_AT_ONCE = 512;
/** Some file systems skip names while others are removed, and a program that still runs may make new ones. */
const MOST_PASSES = 100;
/** The limit for a tree from which directories are moved up: each pass removes one level. */
const MOST_LEVELS = 100_000;
/** Entries that are removed before other work has its turn. A call takes some 10 us, a promise ten times that. */
const AT_ONCE = 32;

const { O_DIRECTORY, O_NOFOLLOW } = fs.constants;

/**
 * Does nothing if the file or directory does not exist. Removes all that can be removed; then throws, like unlink(2) and
 * rmdir(2), if anything could not.
 */
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
    // A pass sees what the one before it has left or moved up.
    for (let n = 0; n < MOST_LEVELS; n += 1) {
      const pass: Pass = { removed: 0, failure: undefined };
      // oxlint-disable-next-line no-await-in-loop -- one pass after the other
      await sweep(top, pass, (full) => emptyInner(full, top, pass));
      if (pass.removed > 0) continue;
      if (pass.failure !== undefined) throw pass.failure.error;
      return;
    }
  } finally {
    fs.closeSync(top.fd);
  }
}

/** Removes what is in a directory of `top`, and moves up what is in its directories. */
async function emptyInner(full: string, top: Held, pass: Pass): Promise<void> {
  const inner = hold(full, top);
  if (inner === undefined) return;
  try {
    let removed = -1;
    for (let n = 0; n < MOST_PASSES && pass.removed > removed; n += 1) {
      ({ removed } = pass);
      // oxlint-disable-next-line no-await-in-loop -- one pass after the other
      await sweep(inner, pass, (deeper) => {
        moveUp(deeper, top);
        pass.removed += 1;
      });
    }
  } finally {
    fs.closeSync(inner.fd);
  }
}

/** rename(2) needs the right to write in a directory that gets another parent. */
function moveUp(deeper: string, top: Held): void {
  const held = hold(deeper, top);
  try {
    fs.renameSync(encodePath(deeper), `${top.at}/${randomUUID()}`);
  } finally {
    if (held !== undefined) fs.closeSync(held.fd);
  }
}

interface Held {
  readonly fd: number;
  readonly at: string;
  readonly dev: bigint;
}

/**
 * Opens a directory and holds it. Its owner gets all rights on it: a program may have left it read-only. Undefined if it
 * is not a directory (any more), or on another file system than `top`.
 */
function hold(dir: string, top?: Held): Held | undefined {
  let fd: number | undefined;
  try {
    fd = fs.openSync(encodePath(dir), O_PATH | O_DIRECTORY | O_NOFOLLOW);
    const at = `/proc/self/fd/${fd}`;
    const { dev, mode } = fs.fstatSync(fd, { bigint: true });
    if (top === undefined || dev === top.dev) {
      if ((mode & OWNER_ALL) !== OWNER_ALL) allowAll(at, mode);
      return { fd, at, dev };
    }
  } catch (error) {
    if (fd !== undefined) fs.closeSync(fd);
    if (isGone(error)) return undefined;
    throw error;
  }
  fs.closeSync(fd);
  return undefined;
}

const OWNER_ALL = 0o700n;

function allowAll(at: string, mode: bigint): void {
  try {
    fs.chmodSync(at, Number((mode | OWNER_ALL) & 0o7777n));
  } catch (error) {
    // Another user's directory, or a read-only file system: what then cannot be removed says why.
    if (!['EPERM', 'EROFS'].includes(errnoOf(error) ?? '')) throw error;
  }
}

interface Pass {
  /** How many entries were removed or moved up. */
  removed: number;
  /** The first one. What cannot be removed does not keep the rest. */
  failure: { readonly error: unknown } | undefined;
}

/** Removes all entries once. Calls `clear` for each directory that is not empty, then removes it. */
async function sweep({ at }: Held, pass: Pass, clear: (full: string) => Promise<void> | void): Promise<void> {
  let count = 0;
  // Names as bytes: a program may use any.
  const encoding = 'buffer' as BufferEncoding;
  for await (const entry of await fs.promises.opendir(at, { encoding, bufferSize: NAMES_AT_ONCE })) {
    if (count % AT_ONCE === 0) await nextTurn();
    count += 1;
    const one = {
      path: `${at}/${decodePath(entry.name as unknown as Buffer)}`,
      isDirectory: entry.isDirectory(),
    };
    try {
      if (!tryRemove(one)) {
        await clear(one.path);
        if (!tryRemove(one)) continue;
      }
      pass.removed += 1;
    } catch (error) {
      pass.failure ??= { error };
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
