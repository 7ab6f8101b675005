// The first step of every start: files that an earlier one left in `.capture/reclaim/` are put back. It deletes a file
// only if its bytes are durable, as its name there says, and if the task has created its path anew.
import fs from 'node:fs';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { joinPath, type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { allEntriesIn } from '../native/directory-entries.ts';
import { reached } from '../native/failpoint.ts';
import { factsOf, openBeneath, writerState } from '../native/files.ts';
import { absolutePath, moveAside, ownDir, putBack } from '../native/own-dir.ts';
import { tidyUp } from '../native/tidy.ts';
import { parseSetAside, type SetAside } from './set-aside.ts';

/**
 * The outcome for one file. `put-back`: it has its old path; a scan captures it again if necessary. `finished`: its
 * path was created again and its bytes are durable, so it is deleted. `aside`: its path was created again or is unknown,
 * and its bytes may be stored nowhere, so it is kept at `aside`.
 */
export type Recovered =
  | { readonly kind: 'put-back' | 'finished'; readonly path: RelPath }
  | { readonly kind: 'aside'; readonly path: RelPath | undefined; readonly aside: RelPath };

/**
 * Finishes all reclaims of a dead process. The caller holds the lock of the work directory, and no reclaimer is open.
 * Throws if a file can be put neither back nor aside; then it stays.
 */
export function recoverReclaims(root: WorkDir): readonly Recovered[] {
  return recoverIn(root, ownDir(root, 'reclaim'), '');
}

/** `below`: a directory in it; only long names have one. */
function recoverIn(root: WorkDir, dir: RelPath, below: RelPath): readonly Recovered[] {
  const at = absolutePath(root, joinPath(dir, below));
  const recovered = allEntriesIn(at).flatMap((entry) => {
    const name = joinPath(below, entry.name);
    return entry.isDirectory() ? recoverIn(root, dir, name) : [recoverOne(root, dir, name)];
  });
  if (below !== '') tidyUp(() => fs.rmdirSync(at));
  return recovered;
}

function recoverOne(root: WorkDir, dir: RelPath, name: RelPath): Recovered {
  const from = `${dir}/${name}`;
  try {
    reached('recover.before-file');
    return recover(root, from, parseSetAside(name));
  } catch (error) {
    const what = `${from} of an earlier start`;
    throw new CaptureError(EXIT.unavailable, `cannot recover ${what} in ${root.path}: ${reasonOf(error)}`, {
      hint: `check the rights in ${root.path}, or move the file away by hand`,
      cause: error,
    });
  }
}

function recover(root: WorkDir, from: RelPath, known: SetAside | undefined): Recovered {
  if (known === undefined) return { kind: 'aside', path: undefined, aside: moveAside(root, from, from) };
  const { path, pushed } = known;
  if (putBack(root, from, path)) {
    reached('recover.after-file');
    return { kind: 'put-back', path };
  }
  if (isDurable(root, from, pushed)) {
    fs.unlinkSync(absolutePath(root, from));
    return { kind: 'finished', path };
  }
  return { kind: 'aside', path, aside: moveAside(root, from, path) };
}

/** Only a pushed file is ever set aside: while it is in that state, deleting it loses nothing. */
function isDurable(root: WorkDir, from: RelPath, pushed: SetAside['pushed']): boolean {
  const fd = openBeneath(root, from);
  try {
    const idle = writerState(fd) === 'none';
    const { links, size, mtimeNs } = factsOf(fd);
    return idle && links === 1 && size === pushed.size && mtimeNs === pushed.mtimeNs;
  } finally {
    fs.closeSync(fd);
  }
}

/** The warning, in one line. */
export function describeRecovered(recovered: Recovered): string {
  const name = recovered.path === undefined ? 'a file whose name is lost' : showPath(recovered.path);
  const earlier = `${name} was being reclaimed when an earlier attempt was stopped`;
  switch (recovered.kind) {
    case 'put-back':
      return `${earlier}: it is in its place again`;
    case 'finished':
      return `${earlier}: it is stored, and there is a newer one in its place`;
    case 'aside':
      return `${earlier}, and may not be stored: it is now ${showPath(recovered.aside)}`;
  }
}
