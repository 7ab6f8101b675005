// The directory that results are gathered into. A file appears in it only whole and checked, under its name at once;
// nothing that is there is ever replaced, and no name leads out of it. So a gathering that was killed is gone on with.
import fs from 'node:fs';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { OWN_DIR } from '../../model/file/manifest.ts';
import { encodePath, isInside, type RelPath } from '../../model/path.ts';
import { lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import { tryLock } from '../../native/files.ts';
import { absolutePath, makeParents, moveInside, ownDir, removeOwnDir } from '../../native/own-dir.ts';
import { fetchFile, type FetchOptions } from '../../restore/fetch.ts';
import { surveyLocal } from '../../restore/local.ts';
import type { Store } from '../../store/contract/store.ts';
import type { StoredSource } from './share.ts';

/** What stands where a result belongs. */
export type Local = 'absent' | 'whole' | 'differs';

export const DIFFERS = 'a different file of that name is there, and stays';

export class Destination {
  readonly #root: WorkDir;
  readonly #temp: RelPath;
  #downloads = 0;

  /** Makes the directory if it is not there. Throws status 64 if that cannot be, or another gathering is at work in it. */
  constructor(path: string) {
    this.#root = { fd: open(path), path };
    try {
      if (!lock(this.#root.fd)) {
        throw new CaptureError(EXIT.usage, `another capture gather is at work in ${path}`, {
          hint: 'wait for it, or name another directory',
        });
      }
      this.#temp = `${emptyOwnDir(this.#root)}/${randomBytes(4).toString('hex')}`;
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

  /** Why the file is not there now; undefined if it is. Throws if the store fails, or the directory. */
  async take(store: Store, source: StoredSource, options: FetchOptions): Promise<string | undefined> {
    this.#downloads += 1;
    const temp = `${this.#temp}-${this.#downloads}`;
    const fetched = await fetchFile({ store, root: this.#root }, source, temp, options);
    if (fetched.kind === 'missing') return `its object ${source.key} is not in the store`;
    if (fetched.kind !== 'ok') return fetched.why;
    makeParents(this.#root, source.path);
    if (moveInside(this.#root, temp, source.path)) return undefined;
    // Two results that the layout gives one name, or somebody else.
    fs.rmSync(absolutePath(this.#root, temp), { force: true });
    return (await this.look(source, true, options.signal)) === 'whole' ? undefined : DIFFERS;
  }

  /** Leaves nothing but what was gathered. */
  close(): void {
    try {
      removeOwnDir(this.#root, 'gather');
      fs.rmdirSync(absolutePath(this.#root, OWN_DIR));
    } catch (error) {
      // A run in this directory has more in it, or somebody has put something else in its place.
      if (!['ENOTEMPTY', 'EEXIST', 'ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) throw error;
    } finally {
      fs.closeSync(this.#root.fd);
    }
  }

  /** Undefined also for a name that leads out, or through a link or a file: its download is refused with the reason. */
  #statOf(path: RelPath): fs.BigIntStats | undefined {
    if (!isInside(path)) return undefined;
    try {
      return lstatBeneath(this.#root, path);
    } catch (error) {
      if (errnoOf(error) === 'ENOTDIR' || errnoOf(error) === 'ELOOP') return undefined;
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

/** `.capture/gather`, without what a killed gathering has left in it. Throws status 64 if that is no directory of ours. */
function emptyOwnDir(root: WorkDir): RelPath {
  try {
    removeOwnDir(root, 'gather');
    return ownDir(root, 'gather');
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
