// The directory that results are gathered into. A file appears in it only whole, checked and on the disk, under its name
// at once; nothing that is there is ever replaced, and no name leads out of it. Downloads that wait for their names stand
// in `.capture/gather/`, under names that say of what they are: so a gathering that was killed is gone on with.
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
import { makeParents, moveInside, ownDir, removeBeneath, removeOwnDir } from '../../native/own-dir.ts';
import { canSyncWhole, syncWhole } from '../../native/whole-sync.ts';
import { fetchFile, type FetchOptions } from '../../restore/fetch.ts';
import { surveyLocal } from '../../restore/local.ts';
import { isStaged } from '../../restore/staging.ts';
import type { Store } from '../../store/contract/store.ts';
import type { StoredSource } from './share.ts';

/** What stands where a result belongs. */
export type Local = 'absent' | 'whole' | 'differs';

const PLACE = 'gather';
const DIR: RelPath = `${OWN_DIR}/${PLACE}`;

export const DIFFERS = 'a different file of that name is there, and stays';

/** A download that is whole, and waits for its name. */
export interface Arrived {
  readonly source: StoredSource;
  readonly temp: RelPath;
}

export class Destination {
  readonly #root: WorkDir;
  /** What a gathering that was killed has left: the name of a download, by what it is of. */
  readonly #left: Map<string, string>;
  readonly #random = randomBytes(4).toString('hex');
  readonly #dryRun: boolean;
  #downloads = 0;
  #unsynced: CaptureError | undefined;
  /** One sync makes all that has arrived durable; otherwise each download is synced alone. */
  readonly syncsWhole: boolean;

  /**
   * Makes the directory if it is not there. Throws status 64 if that cannot be, or another gathering is at work in it. A
   * dry run only looks, and changes nothing in it.
   */
  constructor(path: string, { dryRun }: { readonly dryRun: boolean }) {
    this.#dryRun = dryRun;
    this.#root = { fd: open(path), path };
    try {
      if (!lock(this.#root.fd)) {
        throw new CaptureError(EXIT.usage, `another capture gather is at work in ${path}`, {
          hint: 'wait for it, or name another directory',
        });
      }
      const names = dryRun ? [] : namesIn(this.#root, makeOwnDir(this.#root));
      this.#left = new Map(names.map((name) => [name.split('.')[0] ?? '', name]));
      this.syncsWhole = canSyncWhole(this.#root);
    } catch (error) {
      fs.closeSync(this.#root.fd);
      throw error;
    }
  }

  /**
   * A file of the same size and mtime is believed to be whole, as rsync does: it was checked before it got them. Any
   * other, and with `checksum` this one, too, is read.
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
   * Brings the file as far as before its name, unless a killed gathering has done so. Or why that cannot be. Throws if
   * the store fails, or the directory.
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
   * All that was written until now is on the disk. Throws if that cannot be, from then on each time: the kernel tells of
   * a failed write once, and what can still be read of it is in memory alone.
   */
  async sync(): Promise<void> {
    if (!this.syncsWhole) return;
    if (this.#unsynced !== undefined) throw this.#unsynced;
    try {
      await syncWhole(this.#root);
    } catch (error) {
      this.#unsynced = new CaptureError(
        EXIT.unavailable,
        `cannot gather into ${this.#root.path}: a file could not be written to the disk: ${reasonOf(error)}`,
        { hint: 'check the disk and its space, and start it again', cause: error },
      );
      throw this.#unsynced;
    }
  }

  /** Gives a download that is on the disk its name. Or why it cannot have it. */
  async place({ source, temp }: Arrived, signal: AbortSignal): Promise<string | undefined> {
    try {
      makeParents(this.#root, source.path);
      if (moveInside(this.#root, temp, source.path)) return undefined;
    } catch (error) {
      // Somebody has put something else in place of a directory since it was looked at.
      if (!isBlocked(error)) throw error;
      return errnoOf(error) === 'ELOOP' ? 'a directory above it is a link' : reasonOf(error);
    }
    // Two results that the layout gives one name, or somebody else.
    await removeBeneath(this.#root, temp);
    return (await this.look(source, true, signal)) === 'whole' ? undefined : DIFFERS;
  }

  /**
   * Leaves nothing but what was gathered; of a gathering that is not done also what the next one goes on with, unless
   * it cannot be believed.
   */
  close(isDone: boolean): void {
    try {
      if (this.#dryRun) return;
      if (isDone || this.#unsynced !== undefined) removeOwnDir(this.#root, PLACE);
      else beneath(this.#root, DIR, (full) => fs.rmdirSync(full));
      beneath(this.#root, OWN_DIR, (full) => fs.rmdirSync(full));
    } catch (error) {
      // A run in this directory has more in it, or somebody has put something else in its place.
      if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(errnoOf(error) ?? '') && !isBlocked(error)) throw error;
    } finally {
      fs.closeSync(this.#root.fd);
    }
  }

  /** A download of the file that an earlier gathering has brought whole; what is not whole goes. */
  async #leftOf(what: string, source: StoredSource, signal: AbortSignal): Promise<RelPath | undefined> {
    const name = this.#left.get(what);
    if (name === undefined) return undefined;
    this.#left.delete(what);
    const temp = `${DIR}/${name}`;
    if (await isStaged(this.#root, source, temp, signal)) return temp;
    await removeBeneath(this.#root, temp);
    return undefined;
  }

  /** Undefined also for a name that leads out, or through a link or a file: its download is refused with the reason. */
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

/** `.capture/gather`. Throws status 64 if that cannot be a directory of ours. */
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

/** With those above it. Not by mkdir's own `recursive`: below /proc, where no directory can be made, Node 20 never ends. */
function makeDirectory(path: string): void {
  if (fs.existsSync(encodePath(path))) return;
  const parent = dirname(path);
  if (parent !== path) makeDirectory(parent);
  fs.mkdirSync(encodePath(path));
}

/** True also where directories cannot be locked: over NFS flock(2) wants a file that is open for writing. */
function lock(fd: number): boolean {
  try {
    return tryLock(fd);
  } catch (error) {
    const code = errnoOf(error) ?? '';
    if (['EBADF', 'ENOLCK', 'EOPNOTSUPP', 'EINVAL'].includes(code)) return true;
    throw error;
  }
}
