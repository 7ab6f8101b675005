// Deletes a local file whose bytes are durable: the last step of a push. It must never delete a byte that is
// not in the store, so a file is first set aside, watched for a moment, and put back when anything moved.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { type Fingerprint, sameContentFingerprint, sameFingerprint } from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import { beneath, isBlocked, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { factsOf, openBeneath, writerState } from '../native/files.ts';
import { absolutePath, moveAside, ownDir, putBack } from '../native/own-dir.ts';
import { shareOfOpenFiles } from '../native/processes.ts';
import { StoreError } from '../store/contract/store.ts';
import { type Journal, openJournal } from './journal.ts';

/** Files set aside at once, at most: each holds a descriptor for 100 ms. */
export const MOST_RECLAIMS = 256;
/** A writer that had the file open before we moved it has this long to show itself. */
const QUIET_MS = 100;

/**
 * Why a file was not deleted. `changed`: it is not what was pushed. `reopened`: somebody has it open for
 * writing. `linked`: it has a second name. `unknown-writer`: the file system cannot tell. `gone`: the task
 * removed it. `mounted`: it stands on a file system that is mounted below the work directory.
 */
type Refusal = 'changed' | 'reopened' | 'linked' | 'unknown-writer' | 'gone' | 'mounted';

/**
 * `remade`: the file we had set aside moved, and meanwhile the task made its path anew. It is kept at `aside`,
 * for the caller to push as an older object and then to {@link Reclaimer.discard}.
 */
export type ReclaimOutcome =
  | { readonly kind: 'reclaimed' | Refusal }
  | { readonly kind: 'remade'; readonly aside: RelPath };

interface ReclaimOptions {
  /** The task has ended: a second link or a file system that cannot name writers is no reason to wait. */
  readonly atEnd: boolean;
  /** Asked just before the deletion: rejects when the store may hold the bytes no more. The file stays, it is thrown. */
  readonly confirm?: () => Promise<void>;
}

export interface Reclaimer {
  /**
   * Deletes `path` if it still is `pushed`, whose bytes a record names. Anything but `reclaimed` leaves the
   * file with its name (but see `remade`). An abort puts it back and throws the signal's reason.
   */
  reclaim(
    path: RelPath,
    pushed: Fingerprint,
    options: ReclaimOptions,
    signal?: AbortSignal,
  ): Promise<ReclaimOutcome>;
  /** Deletes a file that was kept `aside`, if it still is `pushed`, its fingerprint at `aside`. */
  discard(aside: RelPath, pushed: Fingerprint): ReclaimOutcome;
  /** Waits for what is under way. */
  close(): Promise<void>;
}

/** A file that was pushed, held open: whatever its name does, this is the inode that may go. */
interface Pushed {
  readonly fd: number;
  /** Its state when its bytes were read. */
  readonly pushed: Fingerprint;
  /** The task has ended: a second link or a file system that cannot name writers is no reason to wait. */
  readonly atEnd: boolean;
}

/** A pushed file and its name. */
interface Held extends Pushed {
  readonly root: WorkDir;
  readonly path: RelPath;
  /** Asked at the last moment; throws when its bytes may be stored no more. */
  readonly confirm?: (() => Promise<void>) | undefined;
}

/**
 * Opens the reclaimer of a work directory, after recoverReclaims. The process must handle SIGIO, whose default
 * action would end it when a writer meets our lease (fcntl(2)).
 */
export function openReclaimer(root: WorkDir): Reclaimer {
  const dir = ownDir(root, 'reclaim');
  const journal = openJournal(root);
  const limit = pLimit(shareOfOpenFiles(MOST_RECLAIMS));
  const underWay = new Set<Promise<unknown>>();
  const run = randomBytes(6).toString('hex');
  let count = 0;

  const reclaimOne = async (
    path: RelPath,
    pushed: Fingerprint,
    { atEnd, confirm }: ReclaimOptions,
    signal?: AbortSignal,
  ): Promise<ReclaimOutcome> => {
    signal?.throwIfAborted();
    const opened = openPushed(root, path);
    if ('refusal' in opened) return { kind: opened.refusal };
    const held = { root, path, fd: opened.fd, pushed, atEnd, confirm };
    try {
      const refusal = refusalOf(held, sameFingerprint);
      if (refusal !== undefined) return { kind: refusal };
      count += 1;
      return await underJournal(held, journal, { dir, id: `${run}-${count}` }, signal);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof StoreError) throw error;
      const what = `${showPath(path)} (${formatBytes(pushed.size)}) in ${root.path}`;
      throw new CaptureError(EXIT.unavailable, `cannot reclaim ${what}: ${reasonOf(error)}`, {
        hint: 'it is stored; delete the local copy by hand if the space is needed',
        cause: error,
      });
    } finally {
      fs.closeSync(opened.fd);
    }
  };

  return {
    reclaim: (path, pushed, options, signal) => {
      const work = limit(() => reclaimOne(path, pushed, options, signal));
      const over: Promise<unknown> = work
        .catch(() => undefined) // The caller has the error; here it only has to be over.
        .finally(() => underWay.delete(over));
      underWay.add(over);
      return work;
    },
    discard: (aside, pushed) => discard(root, aside, pushed),
    close: async () => {
      await Promise.all(underWay);
      await journal.close();
    },
  };
}

async function underJournal(
  held: Held,
  journal: Journal,
  { dir, id }: { readonly dir: RelPath; readonly id: string },
  signal: AbortSignal | undefined,
): Promise<ReclaimOutcome> {
  const aside = `${dir}/${id}`;
  reached('reclaim.before-journal');
  await journal.begin({ id, path: held.path, file: held.pushed });
  reached('reclaim.after-journal');
  let outcome: ReclaimOutcome | undefined;
  try {
    outcome = await setAsideAndDelete(held, aside, signal);
    return outcome;
  } finally {
    // After an error the file may still stand there: then the next start needs the entry.
    const isGone = (): boolean =>
      fs.lstatSync(absolutePath(held.root, aside), { throwIfNoEntry: false }) === undefined;
    if (outcome?.kind === 'reclaimed' || isGone()) journal.done(id);
    else journal.keep();
  }
}

/**
 * Deletes the file by way of the name `aside`. An abort puts it back and throws the signal's reason; so does
 * `confirm` with its own.
 */
async function setAsideAndDelete(
  held: Held,
  aside: RelPath,
  signal: AbortSignal | undefined,
): Promise<ReclaimOutcome> {
  const { root, path, fd } = held;
  // The journal took a while: look again, so that a file in use is not even moved.
  const before = standsAt(held, path) ? refusalOf(held, sameFingerprint) : whatStands(root, path);
  if (before !== undefined) return { kind: before };
  try {
    beneath(root, path, (from) => beneath(root, aside, (to) => fs.renameSync(from, to)));
  } catch (error) {
    // A directory above it has become a link: what stands behind it is somebody else's.
    if (isBlocked(error)) return { kind: 'changed' };
    // A file system is mounted above it, below the work directory: its space is not the work directory's.
    if (errnoOf(error) === 'EXDEV') return { kind: 'mounted' };
    throw error;
  }
  // Between the look and the rename the task may have renamed another file into place.
  reached('reclaim.set-aside');
  if (!standsAt(held, aside)) return giveBack(held, aside, 'changed');
  const { ctimeNs } = factsOf(fd);
  try {
    await sleep(QUIET_MS, undefined, { signal });
    await held.confirm?.();
  } catch (error) {
    const outcome = giveBack(held, aside, 'changed');
    if (outcome.kind === 'remade') return outcome;
    throw error;
  }
  // The rename changed ctime. If it changed again, somebody has written, even if mtime was set back.
  const after = refusalOf(
    held,
    (now, pushed) => sameContentFingerprint(now, pushed) && now.ctimeNs === ctimeNs,
  );
  if (after !== undefined) return giveBack(held, aside, after);
  reached('reclaim.before-unlink');
  fs.unlinkSync(absolutePath(root, aside));
  reached('reclaim.after-unlink');
  return { kind: 'reclaimed' };
}

/** True when the name is that of the held file, which was seen to be the one that was pushed. */
function standsAt({ root, pushed }: Held, path: RelPath): boolean {
  const stat = fs.lstatSync(absolutePath(root, path), { bigint: true, throwIfNoEntry: false });
  return String(stat?.dev) === pushed.dev && String(stat?.ino) === pushed.ino;
}

function whatStands(root: WorkDir, path: RelPath): Refusal {
  return fs.lstatSync(absolutePath(root, path), { throwIfNoEntry: false }) === undefined ? 'gone' : 'changed';
}

/** The name may be taken by now, or its directory be gone or a link: then the file is kept under another one. */
function giveBack({ root, path }: Held, aside: RelPath, refusal: Refusal): ReclaimOutcome {
  if (putBack(root, aside, path)) return { kind: refusal };
  return { kind: 'remade', aside: moveAside(root, aside, path) };
}

function discard(root: WorkDir, aside: RelPath, pushed: Fingerprint): ReclaimOutcome {
  const opened = openPushed(root, aside);
  if ('refusal' in opened) return { kind: opened.refusal };
  try {
    // The name is ours and nobody else's: a second link or an unknown writer is no reason to keep it.
    const refusal = refusalOf({ fd: opened.fd, pushed, atEnd: true }, sameFingerprint);
    if (refusal !== undefined) return { kind: refusal };
    fs.unlinkSync(absolutePath(root, aside));
    return { kind: 'reclaimed' };
  } finally {
    fs.closeSync(opened.fd);
  }
}

/** The open file, which the caller closes, or why there is none to delete. */
function openPushed(root: WorkDir, path: RelPath): { readonly fd: number } | { readonly refusal: Refusal } {
  try {
    return { fd: openBeneath(root, path) };
  } catch (error) {
    switch (errnoOf(error)) {
      case 'ENOENT':
        return { refusal: 'gone' };
      case 'ELOOP':
      case 'ENOTDIR':
      case 'EXDEV':
      case 'EINVAL':
      case 'ENXIO':
        // A link, a directory or a socket has taken its place.
        return { refusal: 'changed' };
      default:
        throw error;
    }
  }
}

/**
 * Why the held file must not go now. The probe comes before the look: whoever had it open for writing and
 * closed it before the probe is seen by the look, and after the move nobody can open it by its path.
 */
function refusalOf(
  { fd, pushed, atEnd }: Pushed,
  same: (now: Fingerprint, pushed: Fingerprint) => boolean,
): Refusal | undefined {
  const writers = writerState(fd);
  const now = factsOf(fd);
  if (!same(now, pushed)) return 'changed';
  if (writers === 'writer') return 'reopened';
  if (atEnd) return undefined;
  if (now.links > 1) return 'linked';
  return writers === 'unknown' ? 'unknown-writer' : undefined;
}
