// One file on its way to deletion: out of the task's sight, watched there for a moment, then deleted or put
// back. It must run under a journal entry, and never leaves a byte that is not stored without a name.
import fs from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { sameContentFingerprint, sameFingerprint } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { factsOf, fileFacts } from '../native/files.ts';
import { absolutePath, moveAside, putBack } from '../native/own-dir.ts';
import { type Pushed, type Refusal, refusalOf } from './refusal.ts';

/** A writer that had the file open before we moved it has this long to show itself. */
const QUIET_MS = 100;

/**
 * `remade`: the file we had set aside moved, and meanwhile the task made its path anew. It is kept at `aside`,
 * for the caller to push as an older object and then to {@link Reclaimer.discard}.
 */
export type ReclaimOutcome =
  | { readonly kind: 'reclaimed' | Refusal }
  | { readonly kind: 'remade'; readonly aside: RelPath };

/** A pushed file and its name. */
export interface Held extends Pushed {
  readonly root: WorkDir;
  readonly path: RelPath;
  /** Asked at the last moment; throws when its bytes may be stored no more. */
  readonly confirm?: (() => Promise<void>) | undefined;
}

/**
 * Deletes the file by way of the name `aside`. An abort puts it back and throws the signal's reason; so does
 * `confirm` with its own.
 */
export async function setAsideAndDelete(
  held: Held,
  aside: RelPath,
  signal: AbortSignal | undefined,
): Promise<ReclaimOutcome> {
  const { root, path, fd } = held;
  // The journal took a while: look again, so that a file in use is not even moved.
  const before = standsAt(held, path) ? refusalOf(held, sameFingerprint) : whatStands(root, path);
  if (before !== undefined) return { kind: before };
  fs.renameSync(absolutePath(root, path), absolutePath(root, aside));
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
  await fs.promises.unlink(absolutePath(root, aside));
  reached('reclaim.after-unlink');
  return { kind: 'reclaimed' };
}

/** True when the name is that of the held file. */
function standsAt({ root, fd }: Held, path: RelPath): boolean {
  const stat = fs.lstatSync(absolutePath(root, path), { bigint: true, throwIfNoEntry: false });
  if (stat === undefined) return false;
  const there = fileFacts(stat);
  const held = factsOf(fd);
  return there.dev === held.dev && there.ino === held.ino;
}

function whatStands(root: WorkDir, path: RelPath): Refusal {
  return fs.lstatSync(absolutePath(root, path), { throwIfNoEntry: false }) === undefined ? 'gone' : 'changed';
}

/** The name may be taken by now, or its directory be gone or a link: then the file is kept under another one. */
function giveBack({ root, path }: Held, aside: RelPath, refusal: Refusal): ReclaimOutcome {
  if (putBack(root, aside, path)) return { kind: refusal };
  return { kind: 'remade', aside: moveAside(root, aside, path) };
}
