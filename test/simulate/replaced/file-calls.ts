// The calls of node:fs on the simulated file systems, each atomic. node:fs makes them at once, node:fs/promises later.
import os from 'node:os';
import { isWritable, O } from '../machine/description.ts';
import { failure } from '../machine/failure.ts';
import type { Inode } from '../machine/inode.ts';
import type { SimProcess } from '../machine/process.ts';
import { theWorld } from '../machine/world.ts';
import { statsOf } from './stats.ts';

export type PathLike = string | Buffer | URL;
interface Bigint {
  readonly bigint?: boolean;
  readonly throwIfNoEntry?: boolean;
}

/** All names in this world are ASCII. */
export function pathText(path: PathLike): string {
  return path instanceof URL ? decodeURIComponent(path.pathname) : path.toString();
}

const MODES: Readonly<Record<string, number>> = {
  r: 0,
  'r+': O.RDWR,
  w: O.WRONLY | O.CREAT | O.TRUNC,
  wx: O.WRONLY | O.CREAT | O.EXCL,
  a: O.WRONLY | O.CREAT | O.APPEND,
};

type Args<T extends readonly unknown[]> = [process: SimProcess, ...rest: T];

function inodeAt(process: SimProcess, path: PathLike, follow: boolean): Inode {
  return theWorld().kernel.inodeAt(process, pathText(path), { follow });
}

function open(...[process, path, flags = 'r', mode]: Args<[PathLike, (string | number)?, number?]>): number {
  const bits = typeof flags === 'number' ? flags : (MODES[flags] ?? 0);
  return theWorld().kernel.open(process, pathText(path), bits, mode === undefined ? {} : { mode });
}

function stat(...[process, path, options, follow = true]: Args<[PathLike, Bigint?, boolean?]>): unknown {
  try {
    if (isProcess(pathText(path))) return procStats(pathText(path), options);
    return statsOf(inodeAt(process, path, follow), options);
  } catch (error) {
    if (options?.throwIfNoEntry === false && (error as NodeJS.ErrnoException).code === 'ENOENT')
      return undefined;
    throw error;
  }
}

function isProcess(path: string): boolean {
  return /^\/proc\/\d+(\/task\/\d+)?$/.test(path);
}

function procStats(path: string, options: Bigint | undefined): unknown {
  const { kernel } = theWorld();
  if (!kernel.processes.has(Number(path.split('/')[2]))) throw failure('ENOENT', 'stat', path);
  return statsOf(kernel.files.root, options);
}

function readAll(process: SimProcess, path: PathLike | number): Buffer {
  const { kernel } = theWorld();
  const fd = typeof path === 'number' ? path : open(process, path);
  try {
    const description = kernel.description(process, fd);
    if (description.kind === 'text') return Buffer.from(description.read(), 'latin1');
    if (description.kind !== 'file') throw failure('EINVAL', 'read');
    if (description.inode.kind === 'directory') throw failure('EISDIR', 'read');
    return Buffer.from(description.inode.data);
  } finally {
    if (typeof path !== 'number') kernel.close(process, fd);
  }
}

type Encoded =
  | BufferEncoding
  | { readonly encoding?: string | null; readonly flag?: string; readonly mode?: number };

function encodingOf(options: Encoded | null | undefined): string | null | undefined {
  return typeof options === 'string' ? options : options?.encoding;
}

function remove(process: SimProcess, path: PathLike, kind: 'file' | 'directory'): void {
  const { kernel } = theWorld();
  const { dentry } = kernel.find(process, pathText(path), { follow: false });
  if (dentry === undefined) throw failure('ENOENT', 'unlink', pathText(path));
  if (kind === 'file' && dentry.inode.kind === 'directory') throw failure('EISDIR', 'unlink', pathText(path));
  if (kind === 'directory' && dentry.inode.kind !== 'directory')
    throw failure('ENOTDIR', 'rmdir', pathText(path));
  kernel.files.unlink(dentry);
}

function removeTree(process: SimProcess, path: string): void {
  const inode = inodeAt(process, path, false);
  if (inode.kind !== 'directory') return remove(process, path, 'file');
  for (const name of Array.from(inode.entries.keys())) removeTree(process, `${path}/${name}`);
  remove(process, path, 'directory');
}

interface RemoveOptions {
  readonly recursive?: boolean;
  readonly force?: boolean;
}

function makeDirectory(process: SimProcess, path: string, mode: number, recursive: boolean): void {
  const { kernel } = theWorld();
  if (recursive) {
    const above = path.slice(0, path.lastIndexOf('/'));
    if (above !== '') {
      const found = findOrUndefined(process, above);
      if (found === undefined) makeDirectory(process, above, mode, true);
    }
  }
  const { parent, name, dentry } = kernel.find(process, path, { follow: false });
  if (dentry !== undefined) {
    if (recursive && dentry.inode.kind === 'directory') return;
    throw failure('EEXIST', 'mkdir', path);
  }
  if (parent.self?.isLinked === false) throw failure('ENOENT', 'mkdir', path);
  kernel.files.link(parent, name, kernel.files.newInode('directory', mode & 0o777));
}

function findOrUndefined(process: SimProcess, path: string): Inode | undefined {
  try {
    return inodeAt(process, path, true);
  } catch {
    return undefined;
  }
}

function entry(name: string, inode: Inode | undefined, encoding: string | null | undefined): unknown {
  const shown = encoding === 'buffer' ? Buffer.from(name) : name;
  return {
    name: shown,
    isDirectory: () => inode?.kind === 'directory',
    isFile: () => inode?.kind === 'file',
    isSymbolicLink: () => inode?.kind === 'link',
  };
}

interface ReadDirOptions {
  readonly withFileTypes?: boolean;
  readonly encoding?: string | null;
}

/** By the name in node:fs, without `Sync`. */
export const fileCalls = {
  open,
  stat: (...[process, path, options]: Args<[PathLike, Bigint?]>) => stat(process, path, options),
  lstat: (...[process, path, options]: Args<[PathLike, Bigint?]>) => stat(process, path, options, false),
  fstat: (...[process, fd, options]: Args<[number, Bigint?]>) => {
    const description = theWorld().kernel.description(process, fd);
    return statsOf(description.kind === 'file' ? description.inode : theWorld().kernel.files.root, options);
  },
  close: (...[process, fd]: Args<[number]>) => theWorld().kernel.close(process, fd),
  read: (
    ...[process, fd, target, offset = 0, length, position = null]: Args<
      [number, Uint8Array, number?, number?, (number | null)?]
    >
  ) => {
    const end = offset + (length ?? target.length - offset);
    return theWorld().kernel.read(process, fd, target.subarray(offset, end), position);
  },
  write: (
    ...[process, fd, content, offset = 0, length, position = null]: Args<
      [number, Uint8Array | string, number?, (number | string)?, (number | null)?]
    >
  ) => {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    if (fd === 2) return outputLine(bytes);
    const end = typeof length === 'number' ? offset + length : bytes.length;
    return theWorld().kernel.write(process, fd, bytes.subarray(offset, end), position);
  },
  ftruncate: (...[process, fd, length = 0]: Args<[number, number?]>) =>
    theWorld().kernel.truncate(process, fd, length),
  fsync: (...[process, fd]: Args<[number]>) => void theWorld().kernel.description(process, fd),
  fdatasync: (...[process, fd]: Args<[number]>) => void theWorld().kernel.description(process, fd),
  readFile: (...[process, path, options]: Args<[PathLike | number, (Encoded | null)?]>) => {
    const bytes = readAll(process, path);
    const encoding = encodingOf(options);
    return encoding === undefined || encoding === null ? bytes : bytes.toString(encoding as BufferEncoding);
  },
  writeFile: (
    ...[process, path, content, options]: Args<[PathLike | number, string | Uint8Array, (Encoded | null)?]>
  ) => {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    if (typeof path === 'number') return void theWorld().kernel.write(process, path, bytes, null);
    const { flag, mode } = typeof options === 'object' && options !== null ? options : {};
    const fd = open(process, path, flag ?? 'w', mode);
    theWorld().kernel.write(process, fd, bytes, 0);
    theWorld().kernel.close(process, fd);
  },
  readdir: (...[process, path, options]: Args<[PathLike, (ReadDirOptions | string)?]>) => {
    const { withFileTypes = false, encoding } =
      typeof options === 'string' ? { encoding: options } : { ...options };
    const { kernel } = theWorld();
    const pids = kernel.namesIn(process, pathText(path));
    if (pids !== undefined) return [...pids];
    const inode = inodeAt(process, path, true);
    if (inode.kind !== 'directory') throw failure('ENOTDIR', 'scandir', pathText(path));
    // In no order, as a file system may list by hash or by age.
    const all = theWorld().random.shuffled([...inode.entries.values()]);
    return all.map(({ name, inode: one }) =>
      withFileTypes ? entry(name, one, encoding) : encoding === 'buffer' ? Buffer.from(name) : name,
    );
  },
  mkdir: (
    ...[process, path, options]: Args<[PathLike, ({ recursive?: boolean; mode?: number } | number)?]>
  ) => {
    const { recursive = false, mode = 0o777 } = typeof options === 'object' ? options : {};
    makeDirectory(process, pathText(path), mode, recursive);
  },
  mkdtemp: (...[process, prefix]: Args<[string]>) => {
    const path = `${prefix}${theWorld().random.uuid().slice(0, 6)}`;
    makeDirectory(process, path, 0o700, false);
    return path;
  },
  rename: (...[process, from, to]: Args<[PathLike, PathLike]>) => {
    const { kernel } = theWorld();
    const { dentry } = kernel.find(process, pathText(from), { follow: false });
    if (dentry === undefined) throw failure('ENOENT', 'rename', pathText(from));
    const target = kernel.find(process, pathText(to), { follow: false });
    kernel.files.rename(dentry, target.parent, target.name);
  },
  link: (...[process, from, to]: Args<[PathLike, PathLike]>) => {
    const { kernel } = theWorld();
    const inode = inodeAt(process, from, false);
    const { parent, name, dentry } = kernel.find(process, pathText(to), { follow: false });
    if (dentry !== undefined) throw failure('EEXIST', 'link', pathText(to));
    kernel.files.link(parent, name, inode);
  },
  symlink: (...[process, target, path]: Args<[PathLike, PathLike]>) => {
    const { files, find } = { files: theWorld().kernel.files, find: theWorld().kernel };
    const { parent, name, dentry } = find.find(process, pathText(path), { follow: false });
    if (dentry !== undefined) throw failure('EEXIST', 'symlink', pathText(path));
    const inode = files.newInode('link', 0o777);
    inode.target = pathText(target);
    files.link(parent, name, inode);
  },
  unlink: (...[process, path]: Args<[PathLike]>) => remove(process, path, 'file'),
  rmdir: (...[process, path]: Args<[PathLike]>) => remove(process, path, 'directory'),
  rm: (...[process, path, options]: Args<[PathLike, RemoveOptions?]>) => {
    const text = pathText(path);
    try {
      if (options?.recursive === true) removeTree(process, text);
      else remove(process, text, 'file');
    } catch (error) {
      if (options?.force !== true || (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  },
  readlink: (...[process, path, options]: Args<[PathLike, ReadDirOptions?]>) => {
    const target = theWorld().kernel.linkOf(process, pathText(path));
    return options?.encoding === 'buffer' ? Buffer.from(target) : target;
  },
  realpath: (...[, path]: Args<[PathLike]>) => pathText(path),
  access: (...[process, path]: Args<[PathLike, number?]>) => void inodeAt(process, path, true),
  chmod: (...[process, path, mode]: Args<[PathLike, number]>) => {
    inodeAt(process, path, true).mode = mode;
  },
  fchmod: (...[process, fd, mode]: Args<[number, number]>) => {
    const description = theWorld().kernel.description(process, fd);
    if (description.kind === 'file') description.inode.mode = mode;
  },
  statfs: (...[process, path]: Args<[PathLike, Bigint?]>) => {
    inodeAt(process, path, true);
    return {
      type: 0xef53,
      bsize: 4096,
      blocks: 2 ** 28,
      bfree: 2 ** 27,
      bavail: 2 ** 27,
      files: 2 ** 24,
      ffree: 2 ** 23,
    };
  },
};

function outputLine(bytes: Uint8Array): number {
  const world = theWorld();
  if (world.isTraced) world.trace(Buffer.from(bytes).toString().trimEnd());
  return bytes.length;
}

export const constants = {
  O_RDONLY: 0,
  O_WRONLY: O.WRONLY,
  O_RDWR: O.RDWR,
  O_CREAT: O.CREAT,
  O_EXCL: O.EXCL,
  O_TRUNC: O.TRUNC,
  O_APPEND: O.APPEND,
  O_NONBLOCK: O.NONBLOCK,
  O_DIRECTORY: O.DIRECTORY,
  O_NOFOLLOW: O.NOFOLLOW,
  O_NOCTTY: 0o400,
  F_OK: 0,
  R_OK: 4,
  W_OK: 2,
  X_OK: 1,
  COPYFILE_EXCL: 1,
  ...os.constants.signals,
};

export { isWritable };
