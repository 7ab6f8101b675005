// The first thing of every start: what an earlier one left in `.capture/reclaim/` goes back where it was. It
// deletes only what the journal proves to be durable, and only when the task has made the path anew.
import fs from 'node:fs';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { sameContentFingerprint } from '../model/file/fingerprint.ts';
import { decodePath, showPath, type RelPath } from '../model/path.ts';
import { factsOf } from '../native/facts.ts';
import { reached } from '../native/failpoint.ts';
import { openBeneath, writerState } from '../native/files.ts';
import { absolutePath, moveAside, ownDir } from '../native/own-dir.ts';
import type { WorkDir } from '../native/work-dir.ts';
import { JOURNAL, readJournal, type JournalEntry } from './journal.ts';
import { putBack } from './put-back.ts';

/**
 * What became of one file. `put-back`: it is where it was, a scan captures it again if it has to. `finished`:
 * its path was made anew, its own bytes are durable, it is deleted. `aside`: its path was made anew or is not
 * known, and its bytes may be stored nowhere: it is kept at `aside`.
 */
export type Settled =
  | { readonly kind: 'put-back' | 'finished'; readonly path: RelPath }
  | { readonly kind: 'aside'; readonly path: RelPath | undefined; readonly aside: RelPath };

/**
 * Settles all reclaims that a dead process left, and takes its journal away. The caller holds the lock of the
 * work directory: no reclaimer is open. Throws when a file can neither go back nor aside; then the journal stays.
 */
export async function settleReclaims(root: WorkDir): Promise<readonly Settled[]> {
  const dir = ownDir(root, 'reclaim');
  const entries = readJournal(root);
  const names = await fs.promises.readdir(absolutePath(root, dir), { encoding: 'buffer' });
  const settled = names.map(decodePath).map((name) => {
    const from = `${dir}/${name}`;
    try {
      reached('settle.before-file');
      return settle(root, from, entries.get(name));
    } catch (error) {
      const what = `${from} of an earlier start`;
      throw new CaptureError(EXIT.unavailable, `cannot settle ${what} in ${root.path}: ${reasonOf(error)}`, {
        hint: `check the rights in ${root.path}, or move the file away by hand`,
        cause: error,
      });
    }
  });
  reached('settle.before-journal');
  await fs.promises.rm(absolutePath(root, JOURNAL), { force: true });
  return settled;
}

function settle(root: WorkDir, from: RelPath, entry: JournalEntry | undefined): Settled {
  if (entry === undefined) return { kind: 'aside', path: undefined, aside: moveAside(root, from, from) };
  const { path } = entry;
  if (putBack(root, from, path)) {
    reached('settle.after-file');
    return { kind: 'put-back', path };
  }
  if (isDurable(root, from, entry)) {
    fs.unlinkSync(absolutePath(root, from));
    return { kind: 'finished', path };
  }
  return { kind: 'aside', path, aside: moveAside(root, from, path) };
}

/** A reclaim is asked for durable bytes only: as long as the file is the journal's, nothing is lost with it. */
function isDurable(root: WorkDir, from: RelPath, entry: JournalEntry): boolean {
  const fd = openBeneath(root, from);
  try {
    const idle = writerState(fd) === 'none';
    const facts = factsOf(fd);
    return idle && facts.links === 1 && sameContentFingerprint(facts, entry.file);
  } finally {
    fs.closeSync(fd);
  }
}

/** The warning, as one line. */
export function describeSettled(settled: Settled): string {
  const name = settled.path === undefined ? 'a file whose name is lost' : showPath(settled.path);
  const earlier = `${name} was being reclaimed when an earlier attempt was stopped`;
  switch (settled.kind) {
    case 'put-back':
      return `${earlier}: it is in its place again`;
    case 'finished':
      return `${earlier}: it is stored, and there is a newer one in its place`;
    case 'aside':
      return `${earlier}, and may not be stored: it is now ${showPath(settled.aside)}`;
  }
}
