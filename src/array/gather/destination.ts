// The directory that results are gathered into. A file appears under its name only when it is complete, checked and on
// the disk. Existing files are never replaced, and no name leads out of the directory. Downloads that wait for their
// names are in `.capture/gather/`. Their temporary names identify their sources, so a gathering resumes after a kill.
import fs from 'node:fs';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { OWN_DIR } from '../../model/file/manifest.ts';
import { encodePath, isInside, type RelPath } from '../../model/path.ts';
import { md5Of } from '../../model/md5.ts';
import { beneath, holdDirectory, isBlocked, lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import { tryLock } from '../../native/files.ts';
import { makeParents, moveInside, ownDir, removeBeneath } from '../../native/own-dir.ts';
import { canSyncFileSystem, syncFileSystem } from '../../native/syncfs.ts';
import { fetchFile, type FetchOptions } from '../../restore/fetch.ts';
import { surveyLocal } from '../../restore/local.ts';
import { isStaged } from '../../restore/staging.ts';
import type { Store } from '../../store/contract/store.ts';
import type { StoredSource } from './share.ts';

/** The local file at a result's path. */
export type Local = 'absent' | 'whole' | 'differs';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;
const PLACE = 'gather';
const DIR: RelPath = `${OWN_DIR}/${PLACE}`;

export const DIFFERS = 'a different file of that name is there, and stays';

/** A complete download that waits for its name. */
export interface Arrived {
  readonly source: StoredSource;
  readonly temp: RelPath;
}

export class Destination {
  readonly #root: WorkDir;
  /** Downloads that a killed gathering left: temporary names by source. */
  readonly #left: Map<string, string>;
  readonly #random = randomBytes(4).toString('hex');
  readonly #dryRun: boolean;
  /** Held while this gathering works. */
  #lock: number | undefined;
  #downloads = 0;
  #unsynced: CaptureError | undefined;
  /** If true, one sync makes all arrived downloads durable. Otherwise each download is synced on its own. */
  readonly syncsWhole: boolean;

  /**
   * Creates the directory if it does not exist. Throws status 64 if that fails, or if another gathering works in it. A
   * dry run changes nothing in it.
   */
  constructor(path: string, { dryRun }: { readonly dryRun: boolean }) {
    this.#dryRun = dryRun;
    this.#root = { fd: open(path), path };
    try {
      this.#lock = dryRun ? undefined : lockOwnDir(this.#root);
      const names = dryRun ? [] : namesIn(this.#root, DIR);
      this.#left = new Map(names.map((name) => [name.split('.')[0] ?? '', name]));
      this.syncsWhole = canSyncFileSystem(this.#root);
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  /**
   * As in rsync, a file with the same size and mtime counts as whole: it was checked before it got them. All other
   * files are read, and with `checksum` this one, too.
   */
  async look(source: StoredSource, checksum: boolean, signal: AbortSignal): Promise<Local> {
    const there = this.#statOf(source.path);
    if (there === undefined) return 'absent';
    const isSame = there.size === BigInt(source.size) && String(there.mtimeNs) === source.mtimeNs;
    if (isSame && there.isFile() && source.kind === 'file' && !checksum) return 'whole';
    const [found] = await surveyLocal(this.#root, [source], { role: 'resumed', onLocal: 'stored', signal });
    return found?.local === 'same' ? 'whole' : 'differs';
  }

  /**
   * Downloads the file under its temporary name, unless a killed gathering has done so. Resolves to a reason if that is
   * impossible. Throws if the store or the directory fails.
   */
  async fetch(store: Store, source: StoredSource, options: FetchOptions): Promise<Arrived | string> {
    const { path, key, md5 } = source;
    const what = md5Of(Buffer.from(JSON.stringify([path, key, md5])));
    const before = await this.#leftOf(what, source, options.signal);
    if (before !== undefined) return { source, temp: before };
    this.#downloads += 1;
    const temp = `${DIR}/${what}.${this.#random}-${this.#downloads}`;
    const syncedLater = this.syncsWhole;
    const fetched = await fetchFile({ store, root: this.#root }, source, temp, { ...options, syncedLater });
    if (fetched.kind === 'missing') return `its object ${key} is not in the store`;
    return fetched.kind === 'ok' ? { source, temp } : fetched.why;
  }

  /**
   * Makes all written data durable. After a failure it throws each time: the kernel reports a failed write once, and
   * the data that can still be read may be in memory only.
   */
  async sync(): Promise<void> {
    if (!this.syncsWhole) return;
    if (this.#unsynced !== undefined) throw this.#unsynced;
    try {
      await syncFileSystem(this.#root);
    } catch (error) {
      this.#unsynced = new CaptureError(
        EXIT.unavailable,
        `cannot gather into ${this.#root.path}: a file could not be written to the disk: ${reasonOf(error)}`,
        { hint: 'check the disk and its space, and start it again', cause: error },
      );
      throw this.#unsynced;
    }
  }

  /** Renames a durable download to its final name. Resolves to a reason if that is impossible. */
  async place({ source, temp }: Arrived, signal: AbortSignal): Promise<string | undefined> {
    try {
      makeParents(this.#root, source.path);
      if (moveInside(this.#root, temp, source.path)) return undefined;
    } catch (error) {
      // A directory in the path was replaced since the check.
      if (!isBlocked(error)) throw error;
      return errnoOf(error) === 'ELOOP' ? 'a directory above it is a link' : reasonOf(error);
    }
    // The layout gives two results the same name, or another program created the file.
    await removeBeneath(this.#root, temp);
    return (await this.look(source, true, signal)) === 'whole' ? undefined : DIFFERS;
  }

  /**
   * Removes everything except the gathered files. If the gathering is not done, the downloads that the next one can use
   * stay, unless they cannot be trusted.
   */
  async close(isDone: boolean): Promise<void> {
    try {
      if (this.#dryRun) return;
      if (isDone || this.#unsynced !== undefined) await removeBeneath(this.#root, DIR);
      else beneath(this.#root, DIR, (full) => fs.rmdirSync(full));
      beneath(this.#root, OWN_DIR, (full) => fs.rmdirSync(full));
    } catch (error) {
      // A run in this directory keeps more in it, or somebody has replaced it.
      if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(errnoOf(error) ?? '') && !isBlocked(error)) throw error;
    } finally {
      this.#release();
    }
  }

  #release(): void {
    if (this.#lock !== undefined) fs.closeSync(this.#lock);
    fs.closeSync(this.#root.fd);
  }

  /** A complete download of the file by an earlier gathering. An incomplete one is removed. */
  async #leftOf(what: string, source: StoredSource, signal: AbortSignal): Promise<RelPath | undefined> {
    const name = this.#left.get(what);
    if (name === undefined) return undefined;
    this.#left.delete(what);
    const temp = `${DIR}/${name}`;
    if (await isStaged(this.#root, source, temp, signal)) return temp;
    await removeBeneath(this.#root, temp);
    return undefined;
  }

  /**
   * Undefined also if the name leads out, or through a link or a file. Its download is then refused with the reason.
   */
  #statOf(path: RelPath): fs.BigIntStats | undefined {
    if (!isInside(path)) return undefined;
    try {
      return lstatBeneath(this.#root, path);
    } catch (error) {
      if (isBlocked(error)) return undefined;
      throw error;
    }
  }
}

function open(path: string): number {
  try {
    makeDirectory(path);
    return fs.openSync(encodePath(path), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  } catch (error) {
    throw new CaptureError(EXIT.usage, `cannot gather into ${path}: ${reasonOf(error)}`, {
      hint: 'name a directory that you can write to',
      cause: error,
    });
  }
}

function namesIn(root: WorkDir, dir: RelPath): readonly string[] {
  const { at, close } = holdDirectory(root, dir);
  try {
    return fs.readdirSync(at);
  } finally {
    close();
  }
}

/** Returns `.capture/gather`. Throws status 64 if it cannot be a directory of ours. */
function makeOwnDir(root: WorkDir): RelPath {
  try {
    return ownDir(root, PLACE);
  } catch (error) {
    throw new CaptureError(EXIT.usage, `cannot gather into ${root.path}: ${reasonOf(error)}`, {
      hint: `capture makes a directory ${OWN_DIR} there meanwhile: move away what has that name`,
      cause: error,
    });
  }
}

/**
 * Creates the directory and its parents. Does not use `recursive` of mkdir: below /proc, where no directory can be
 * created, Node 20 loops for ever.
 */
function makeDirectory(path: string): void {
  if (fs.existsSync(encodePath(path))) return;
  const parent = dirname(path);
  if (parent !== path) makeDirectory(parent);
  fs.mkdirSync(encodePath(path));
}

/**
 * The open `.capture/gather`, locked; the caller closes it. Others may read the directory above, and whoever can open a
 * directory can lock it (flock(2)). Throws status 64 if another gathering works there.
 */
function lockOwnDir(root: WorkDir): number {
  for (;;) {
    const dir = makeOwnDir(root);
    let fd: number;
    try {
      fd = beneath(root, dir, (full) => fs.openSync(full, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') continue;
      throw error;
    }
    if (!lock(fd)) {
      fs.closeSync(fd);
      throw new CaptureError(EXIT.usage, `another capture gather is at work in ${root.path}`, {
        hint: 'wait for it, or name another directory',
      });
    }
    // A gathering that has just ended may have removed it before we had the lock: as above.
    if (lstatBeneath(root, dir)?.ino === fs.fstatSync(fd, { bigint: true }).ino) return fd;
    fs.closeSync(fd);
  }
}

/** Returns true also if directories cannot be locked: over NFS, flock(2) needs a file that is open for writing. */
function lock(fd: number): boolean {
  try {
    return tryLock(fd);
  } catch (error) {
    const code = errnoOf(error) ?? '';
    if (['EBADF', 'ENOLCK', 'EOPNOTSUPP', 'EINVAL'].includes(code)) return true;
    throw error;
  }
}
