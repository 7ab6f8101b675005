// Deletes a local file whose bytes are durable: the last step of a push. It must never delete a byte that is
// not in the store, so a file is first set aside, watched for a moment, and put back when anything moved.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import pLimit from 'p-limit';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { type Fingerprint, sameFingerprint } from '../model/file/file-state.ts';
import { type RelPath, showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import type { WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { absolutePath, ownDir } from '../native/own-dir.ts';
import { openFilesLimit } from '../native/processes.ts';
import { StoreError } from '../store/contract/store.ts';
import { type Journal, openJournal } from './journal.ts';
import { openPushed, refusalOf } from './refusal.ts';
import { type Held, type ReclaimOutcome, setAsideAndDelete } from './set-aside.ts';

export type { ReclaimOutcome } from './set-aside.ts';

/** Files set aside at once, at most: each holds a descriptor for 100 ms. */
const AT_ONCE = 256;
/** Of the descriptors that a node allows; the others are for what else is open. Many allow 1,024, some far fewer. */
const SHARE_OF_OPEN_FILES = 1 / 8;

export interface ReclaimOptions {
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

/**
 * Opens the reclaimer of a work directory, after recoverReclaims. The process must handle SIGIO, whose default
 * action would end it when a writer meets our lease (fcntl(2)).
 */
export function openReclaimer(root: WorkDir): Reclaimer {
  const dir = ownDir(root, 'reclaim');
  const journal = openJournal(root);
  const fewer = Math.floor(openFilesLimit() * SHARE_OF_OPEN_FILES);
  const limit = pLimit(Math.max(1, Math.min(AT_ONCE, fewer)));
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
  try {
    return await setAsideAndDelete(held, aside, signal);
  } finally {
    // After an error the file may still stand there: then the next start needs the entry.
    const stat = fs.lstatSync(absolutePath(held.root, aside), { throwIfNoEntry: false });
    if (stat === undefined) journal.done(id);
    else journal.keep();
  }
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
