// Deletes a local file whose bytes are durable: the last step of a push. It must never delete a byte that is not in
// the store. So a file is first set aside, watched for a moment, and put back if anything changed.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { type Fingerprint, sameContentFingerprint, sameFingerprint } from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import { beneath, isBlocked, lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { factsOf, openBeneath, writerState } from '../native/files.ts';
import { absolutePath, moveAside, ownDir, putBack } from '../native/own-dir.ts';
import { shareOfOpenFiles } from '../native/processes.ts';
import { StoreError } from '../store/contract/store.ts';
import { makeInnerDirs, removeInnerDirs, setAsideName } from './set-aside.ts';

/** Most files that are set aside at once: each holds a descriptor for 100 ms. */
export const MOST_RECLAIMS = 256;
/** A writer that had opened the file before the rename has this long to become visible. */
const QUIET_MS = 100;

/**
 * Why a file was not deleted. `changed`: it differs from the pushed state. `reopened`: a process has it open for
 * writing. `linked`: it has a second name. `unknown-writer`: the file system cannot tell. `gone`: the task removed it.
 * `mounted`: it is on a file system that is mounted below the work directory.
 */
type Refusal = 'changed' | 'reopened' | 'linked' | 'unknown-writer' | 'gone' | 'mounted';

/**
 * `remade`: the file changed while it was set aside, and the task created its path anew. It stays at `aside`. The
 * caller pushes it as an older object and then calls {@link Reclaimer.discard}.
 */
export type ReclaimOutcome =
  | { readonly kind: 'reclaimed' | Refusal }
  | { readonly kind: 'remade'; readonly aside: RelPath };

interface ReclaimOptions {
  /** The task has ended: a second link, or a file system that cannot name writers, is no reason to wait. */
  readonly atEnd: boolean;
  /**
   * Called just before the deletion. It rejects if the store may no longer hold the bytes: then the file stays, and
   * the error is thrown.
   */
  readonly confirm?: () => Promise<void>;
  /** Called when the file has got its name back, before anything else runs: the watcher will see that rename, too. */
  readonly onPutBack?: () => void;
}

export interface Reclaimer {
  /**
   * Deletes `path` if it is still in the state `pushed`, whose bytes a record names. After any other outcome the file
   * has its name (except `remade`). An abort puts it back and throws the signal's reason.
   */
  reclaim(
    path: RelPath,
    pushed: Fingerprint,
    options: ReclaimOptions,
    signal?: AbortSignal,
  ): Promise<ReclaimOutcome>;
  /** Deletes a file at `aside` if it is still in the state `pushed`, its fingerprint there. */
  discard(aside: RelPath, pushed: Fingerprint): ReclaimOutcome;
  /** Waits for reclaims in progress. */
  close(): Promise<void>;
}

/** A pushed file, held open: whatever happens to its name, only this inode may be deleted. */
interface Pushed extends Pick<ReclaimOptions, 'atEnd'> {
  readonly fd: number;
  /** Its state when its bytes were read. */
  readonly pushed: Fingerprint;
}

/** A pushed file and its name. */
interface HeldFile extends Pushed, ReclaimOptions {
  readonly root: WorkDir;
  readonly path: RelPath;
}

/**
 * Opens the reclaimer of a work directory, after recoverReclaims. The process must handle SIGIO: if a writer breaks
 * the lease, the default action of that signal would end it (fcntl(2)).
 */
export function openReclaimer(root: WorkDir): Reclaimer {
  const dir = ownDir(root, 'reclaim');
  const limit = pLimit(shareOfOpenFiles(MOST_RECLAIMS));
  const underWay = new Set<Promise<unknown>>();
  const run = randomBytes(6).toString('hex');
  let count = 0;

  const reclaimOne = async (
    path: RelPath,
    pushed: Fingerprint,
    options: ReclaimOptions,
    signal?: AbortSignal,
  ): Promise<ReclaimOutcome> => {
    signal?.throwIfAborted();
    const opened = openPushed(root, path);
    if ('refusal' in opened) return { kind: opened.refusal };
    const held = { ...options, root, path, fd: opened.fd, pushed };
    try {
      const refusal = refusalOf(held, sameFingerprint);
      if (refusal !== undefined) return { kind: refusal };
      count += 1;
      const aside = `${dir}/${setAsideName({ id: `${run}-${count}`, path, pushed })}`;
      return await setAsideAndDelete(held, aside, signal);
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
        .catch(() => undefined) // The caller gets the error; `close` only waits for the end.
        .finally(() => underWay.delete(over));
      underWay.add(over);
      return work;
    },
    discard: (aside, pushed) => discard(root, aside, pushed),
    close: async () => {
      await Promise.all(underWay);
    },
  };
}

/**
 * Deletes the file after renaming it to `aside`. An abort puts it back and throws the signal's reason; a failing
 * `confirm` puts it back and throws its own error.
 */
async function setAsideAndDelete(
  held: HeldFile,
  aside: RelPath,
  signal: AbortSignal | undefined,
): Promise<ReclaimOutcome> {
  const { root, path, fd } = held;
  reached('reclaim.before-set-aside');
  try {
    makeInnerDirs(root, aside);
    beneath(root, path, (from) => beneath(root, aside, (to) => fs.renameSync(from, to)));
  } catch (error) {
    removeInnerDirs(root, aside);
    // A directory above it has become a link: the files behind the link belong to somebody else.
    if (isBlocked(error)) return { kind: 'changed' };
    // A file system is mounted above it, below the work directory: deleting it frees nothing in the work directory.
    if (errnoOf(error) === 'EXDEV') return { kind: 'mounted' };
    if (errnoOf(error) === 'ENOENT' && lstatBeneath(root, path) === undefined) return { kind: 'gone' };
    throw error;
  }
  // Between the look and the rename, the task may have renamed another file to this path.
  reached('reclaim.set-aside');
  if (!isAtPath(held, aside)) return putBackOrKeep(held, aside, 'changed');
  const { ctimeNs } = factsOf(fd);
  try {
    await sleep(QUIET_MS, undefined, { signal });
    await held.confirm?.();
  } catch (error) {
    const outcome = putBackOrKeep(held, aside, 'changed');
    if (outcome.kind === 'remade') return outcome;
    throw error;
  }
  // The rename changed ctime. If it changed again, somebody has written, even if mtime was set back.
  const after = refusalOf(
    held,
    (now, pushed) => sameContentFingerprint(now, pushed) && now.ctimeNs === ctimeNs,
  );
  if (after !== undefined) return putBackOrKeep(held, aside, after);
  reached('reclaim.before-unlink');
  fs.unlinkSync(absolutePath(root, aside));
  removeInnerDirs(root, aside);
  reached('reclaim.after-unlink');
  return { kind: 'reclaimed' };
}

/** True if the path is that of the held file, whose state was seen to be the pushed one. */
function isAtPath({ root, pushed }: HeldFile, path: RelPath): boolean {
  const stat = fs.lstatSync(absolutePath(root, path), { bigint: true, throwIfNoEntry: false });
  return String(stat?.dev) === pushed.dev && String(stat?.ino) === pushed.ino;
}

/** The name may be taken by now, or its directory may be gone or a link: then the file is kept under another name. */
function putBackOrKeep(held: HeldFile, aside: RelPath, refusal: Refusal): ReclaimOutcome {
  const { root, path } = held;
  const isBack = putBack(root, aside, path);
  if (isBack) held.onPutBack?.();
  const kept = isBack ? undefined : moveAside(root, aside, path);
  removeInnerDirs(root, aside);
  return kept === undefined ? { kind: refusal } : { kind: 'remade', aside: kept };
}

function discard(root: WorkDir, aside: RelPath, pushed: Fingerprint): ReclaimOutcome {
  const opened = openPushed(root, aside);
  if ('refusal' in opened) return { kind: opened.refusal };
  try {
    // Only capture uses this name: a second link or an unknown writer is no reason to keep it.
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
 * Why the held file must not be deleted now. The probe for writers comes before the look at the state. So the look
 * sees a writer that closed the file before the probe, and after the rename nobody can open the file by its path.
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
