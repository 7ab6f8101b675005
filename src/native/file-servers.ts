// File servers other than the one of the work directory: a link may lead to them, and they may not answer for hours.
// mountinfo and readlink(2) tell where a path leads without asking a server; only a thread asks what is there.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath, showPath } from '../model/path.ts';
import { formatMs } from '../model/units.ts';
import { newDeferred } from '../model/waiting.ts';
import type { WorkDir } from './beneath.ts';
import type { DirectoryEntry } from './directory-entries.ts';
import { allMounts, type Mount, mountAmong, mountOfOpen } from './mounts.ts';
import { isNetworkFileSystem } from './network-files.ts';

/** A question may take so long. */
const WITHIN_MS = 5000;
/** The parts of that time. */
const TICKS = 5;
/** Servers that are asked at one time, by this process: libuv's pool has four threads, which other work needs, too. */
const MOST_AT_ONCE = 2;
/** The table of mounts is read again after this long. */
const TABLE_MS = 1000;
/** As the kernel: path_resolution(7). */
const MOST_LINKS = 40;

export class NoAnswer extends Error {
  constructor(point: string, withinMs: number) {
    super(`${showPath(point)} has not answered within ${formatMs(withinMs)}`);
    this.name = 'NoAnswer';
  }
}

/** `isSilent`: the time for it is over; its thread still waits. */
interface Question {
  isSilent: boolean;
  readonly over: Promise<void>;
}

/** By device: a thread waits for each of them. */
const underWay = new Map<string, Question>();

export class FileServers {
  readonly #root: WorkDir;
  readonly #withinMs: number;
  #mounts: readonly Mount[] = [];
  /** Of these. */
  #others: readonly Mount[] = [];
  #readAtMs = -Infinity;

  constructor(root: WorkDir, withinMs = WITHIN_MS) {
    this.#root = root;
    this.#withinMs = withinMs;
  }

  /**
   * The first file server that the kernel asks when it follows `dir/rest`; undefined if it asks none but that of the
   * work directory. `dir`: absolute, without links. Asks no server itself.
   */
  onTheWay(dir: string, rest = ''): Mount | undefined {
    this.#readTable();
    if (this.#others.length === 0) return undefined;
    let at = dir === '/' ? '' : dir;
    const parts = rest.split('/').toReversed();
    let links = 0;
    for (let server = this.#serverOf(at); ; server = this.#serverOf(at)) {
      const part = server === undefined ? parts.pop() : undefined;
      if (part === undefined) return server;
      if (part === '' || part === '.') continue;
      const next = part === '..' ? at.slice(0, Math.max(0, at.lastIndexOf('/'))) : `${at}/${part}`;
      const target = this.#serverOf(next) === undefined ? linkTarget(next) : undefined;
      if (target === undefined) at = next;
      else if (links === MOST_LINKS) return undefined;
      else {
        links += 1;
        parts.push(...target.split('/').toReversed());
        if (target.startsWith('/')) at = '';
      }
    }
  }

  /**
   * Resolves to the answer of a question to this server, which uses one thread at a time. A server is asked one question
   * at a time. One that has not answered is asked nothing more before it does. Throws NoAnswer, and as `question`.
   */
  async ask<T>({ device, point }: Mount, question: () => Promise<T>): Promise<T> {
    const silence = new NoAnswer(point, this.#withinMs);
    for (let before = inTheWay(device); before.length > 0; before = inTheWay(device)) {
      const ending = before.flatMap(({ isSilent, over }) => (isSilent ? [] : [over]));
      if (ending.length === 0) throw silence;
      // oxlint-disable-next-line no-await-in-loop -- its turn comes
      await Promise.race(ending);
    }
    const over = newDeferred<void>();
    const late = newDeferred<never>();
    const own: Question = { isSilent: false, over: over.promise };
    underWay.set(device, own);
    let ticks = 0;
    // In parts: while this thread is busy for seconds, the answer may be there.
    const timer = setInterval(() => {
      ticks += 1;
      if (ticks < TICKS) return;
      clearInterval(timer);
      own.isSilent = true;
      over.resolve();
      late.reject(silence);
    }, this.#withinMs / TICKS);
    const answer = question().finally(() => {
      clearInterval(timer);
      underWay.delete(device);
      over.resolve();
    });
    return Promise.race([answer, late.promise]);
  }

  #readTable(): void {
    const nowMs = performance.now();
    if (nowMs - this.#readAtMs < TABLE_MS) return;
    this.#readAtMs = nowMs;
    this.#mounts = allMounts();
    const own = mountOfOpen(this.#root.fd, this.#mounts)?.device;
    this.#others = this.#mounts.filter(({ type, device }) => isRemote(type) && device !== own);
  }

  #serverOf(path: string): Mount | undefined {
    if (mountAmong(this.#others, path) === undefined) return undefined;
    const mount = mountAmong(this.#mounts, path);
    return mount !== undefined && this.#others.includes(mount) ? mount : undefined;
  }
}

/** A look at a name below autofs mounts what is there. */
function isRemote(type: string): boolean {
  return type === 'autofs' || isNetworkFileSystem(type);
}

/** What must end before a question to this server begins. */
function inTheWay(device: string): readonly Question[] {
  const own = underWay.get(device);
  if (own !== undefined) return [own];
  return underWay.size < MOST_AT_ONCE ? [] : [...underWay.values()];
}

/** Undefined if it is no link, or nobody can look: then the kernel gets no further, either. */
function linkTarget(path: string): string | undefined {
  try {
    const full = encodePath(path);
    if (fs.lstatSync(full, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return undefined;
    return decodePath(fs.readlinkSync(full, { encoding: 'buffer' }));
  } catch {
    return undefined;
  }
}

/** Questions for {@link FileServers.ask}: as the functions of node:fs, one after the other. */

/** stat(2); undefined if nothing is there, or the link leads nowhere. */
export async function statLater(at: string): Promise<fs.Stats | undefined> {
  try {
    return await fs.promises.stat(encodePath(at));
  } catch (error) {
    if (leadsNowhere(error)) return undefined;
    throw error;
  }
}

/** When it was last changed, by its file system; Infinity if it is gone. */
export async function changedMsLater(at: string): Promise<number> {
  try {
    return (await fs.promises.lstat(encodePath(at))).ctimeMs;
  } catch (error) {
    if (leadsNowhere(error)) return Infinity;
    throw error;
  }
}

/** The real path of the directory that is at `at`, perhaps behind links; undefined if there is none. */
export async function directoryLater(at: string): Promise<string | undefined> {
  if ((await statLater(at))?.isDirectory() !== true) return undefined;
  return decodePath(await fs.promises.realpath(encodePath(at), { encoding: 'buffer' }));
}

/** At most `most` entries of a directory. Throws as opendir(3). */
export async function entriesLater(at: string, most: number): Promise<readonly DirectoryEntry[]> {
  const entries: DirectoryEntry[] = [];
  // Of a path in bytes, with names that are text, Node cannot look up types that the server does not tell (readdir(3),
  // DT_UNKNOWN): it would do so in the calling thread.
  const dir = await fs.promises.opendir(Buffer.from(encodePath(at)), { encoding: 'latin1' });
  try {
    for (let entry = await dir.read(); entry !== null && entries.length < most; entry = await dir.read())
      entries.push(entryOf(entry.name, entry));
  } catch (error) {
    if (errnoOf(error) !== 'ERR_INVALID_ARG_TYPE') throw error;
    return entriesByName(at, most);
  } finally {
    await dir.close();
  }
  return entries;
}

async function entriesByName(at: string, most: number): Promise<readonly DirectoryEntry[]> {
  const entries: DirectoryEntry[] = [];
  for (const name of (await fs.promises.readdir(encodePath(at), { encoding: 'latin1' })).slice(0, most)) {
    try {
      const bytes = Buffer.concat([Buffer.from(encodePath(`${at}/`)), Buffer.from(name, 'latin1')]);
      // oxlint-disable-next-line no-await-in-loop -- one thread at a time
      entries.push(entryOf(name, await fs.promises.lstat(bytes)));
    } catch (error) {
      if (!leadsNowhere(error)) throw error;
    }
  }
  return entries;
}

/** `latin1`: the name, a character for each byte. */
function entryOf(latin1: string, types: Omit<DirectoryEntry, 'name'>): DirectoryEntry {
  return {
    name: decodePath(Buffer.from(latin1, 'latin1')),
    isDirectory: () => types.isDirectory(),
    isFile: () => types.isFile(),
    isSymbolicLink: () => types.isSymbolicLink(),
  };
}

export function leadsNowhere(error: unknown): boolean {
  return ['ELOOP', 'ENOTDIR', 'ENOENT'].includes(errnoOf(error) ?? '');
}
