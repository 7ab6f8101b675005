// Directories that are ours alone, and their files: `.capture/`, sockets, scratch. If others may write in the directory
// above, they can make ours first, or put links and FIFOs into it. So we hold it open while it is used, check the open
// directory, and never follow a link in it, wait for a FIFO, or write to a file that others made.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { encodePath, showPath } from '../model/path.ts';
import { type HeldDirectory, O_PATH } from './beneath.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;
const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

/**
 * Makes `dir` (mode 0700; its parent must exist), or opens one of ours that exists. Throws an Error that says why if it
 * is not a directory, belongs to another user, is for all users (sticky, as /tmp), or others may write in it and
 * chmod(2) does not help.
 */
export function openPrivateDir(dir: string): HeldDirectory {
  try {
    fs.mkdirSync(encodePath(dir), { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST' && errnoOf(error) !== 'EROFS') throw error;
  }
  return holdPrivateDir(dir);
}

/** Makes the directory, or throws as {@link openPrivateDir} does. */
export function makePrivateDir(dir: string): void {
  openPrivateDir(dir).close();
}

/** As {@link openPrivateDir}, but only opens: throws ENOENT if it does not exist. */
export function holdPrivateDir(dir: string): HeldDirectory & { readonly fd: number } {
  const fd = openDirectory(dir);
  const at = `/proc/self/fd/${fd}`;
  try {
    const { uid, mode } = fs.fstatSync(fd);
    const us = process.geteuid?.();
    if (uid !== us && uid !== ownerOfNewFile(at))
      throw new Error(`${showPath(dir)} belongs to user ${uid}, and we are ${us}`);
    // If we are root, /tmp is ours: closed to others, it would stop all of them.
    if ((mode & STICKY) !== 0) throw new Error(`${showPath(dir)} is a directory for all users`);
    // The driver of a volume may have added rights for a group since we made it (fsGroup in Kubernetes).
    if ((mode & OTHERS) !== 0) closeToOthers(at);
    if ((fs.fstatSync(fd).mode & OTHERS_WRITE) !== 0)
      throw new Error(`others may write in ${showPath(dir)}, and that cannot be changed`);
    return { at, fd, close: () => fs.closeSync(fd) };
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

function openDirectory(dir: string): number {
  try {
    return fs.openSync(encodePath(dir), O_PATH | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    if (errnoOf(error) !== 'ENOTDIR' && errnoOf(error) !== 'ELOOP') throw error;
    throw new Error(`${showPath(dir)} is a link, or not a directory`, { cause: error });
  }
}

/**
 * The owner of what we make in this directory: a file server may map all users to one (root_squash, an EFS access
 * point). Undefined if we cannot make anything there.
 */
function ownerOfNewFile(at: string): number | undefined {
  const probe = `${at}/.owner-${randomBytes(8).toString('hex')}`;
  let fd: number;
  try {
    fd = fs.openSync(probe, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  } catch {
    return undefined;
  }
  try {
    return fs.fstatSync(fd).uid;
  } finally {
    fs.closeSync(fd);
    fs.rmSync(probe, { force: true });
  }
}

function closeToOthers(at: string): void {
  try {
    fs.chmodSync(at, 0o700);
  } catch {
    // A read-only file system, or one without modes: the caller checks the mode.
  }
}

/** Calls `act` with a path to the directory, which is held meanwhile. Throws ENOENT if it does not exist. */
export function inPrivateDir<T>(dir: string, act: (at: string) => T): T {
  const held = holdPrivateDir(dir);
  try {
    return act(held.at);
  } finally {
    held.close();
  }
}

/**
 * Opens a file of ours in a private directory. Throws if it is not a regular file of ours. Never waits for the other
 * end of a FIFO (fifo(7)), and follows no link. `flags` as in open(2).
 */
export function openPrivateFile(dir: string, name: string, flags: number): number {
  return inPrivateDir(dir, (at) => openHeldFile({ at }, name, flags));
}

/** The same in a private directory that is held already. */
export function openHeldFile({ at }: Pick<HeldDirectory, 'at'>, name: string, flags: number): number {
  const fd = fs.openSync(encodePath(`${at}/${name}`), flags | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    const stat = fs.fstatSync(fd);
    if (stat.isFile() && stat.uid === fs.statSync(at).uid) return fd;
    throw new Error(`${showPath(name)} is not a file of ours`);
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

/** The task may write there, too. More than the baselines of a million inputs take. */
const LARGEST_BYTES = 256 * 2 ** 20;

/** The text of a file; undefined if it does not exist, it or the directory is not ours, or it is larger than we write. */
export function readPrivateFile(dir: string, name: string): string | undefined {
  let fd: number;
  try {
    fd = openPrivateFile(dir, name, O_RDONLY);
  } catch {
    return undefined;
  }
  try {
    return fs.fstatSync(fd).size > LARGEST_BYTES ? undefined : fs.readFileSync(fd, 'utf8');
  } finally {
    fs.closeSync(fd);
  }
}

/** Makes a new file (mode 0600), and opens it for writing. Throws EEXIST if the name is taken. */
export function makePrivateFile(dir: string, name: string): number {
  return inPrivateDir(dir, (at) => makeFile(`${at}/${name}`));
}

function makeFile(path: string): number {
  return fs.openSync(encodePath(path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
}

/** Writes a new file, and renames it over whatever has that name. Calls `written` before it renames. */
export function replacePrivateFile(
  dir: string,
  name: string,
  text: string,
  written: () => void = () => undefined,
): void {
  inPrivateDir(dir, (at) => {
    const made = `${at}/${name}.new`;
    fs.rmSync(encodePath(made), { force: true });
    const fd = makeFile(made);
    try {
      fs.writeFileSync(fd, text);
    } finally {
      fs.closeSync(fd);
    }
    written();
    fs.renameSync(encodePath(made), encodePath(`${at}/${name}`));
  });
}

/** Removes the file or link of that name, if there is one. */
export function removePrivateFile(dir: string, name: string): void {
  inPrivateDir(dir, (at) => fs.rmSync(encodePath(`${at}/${name}`), { force: true }));
}
