// The first thing of every start: what an earlier one left in `.capture/reclaim/` goes back where it was. It
// deletes only what the journal proves to be durable, and only when the task has made the path anew.
import fs from 'node:fs';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { sameContentFingerprint } from '../model/file/file-state.ts';
import { decodePath, type RelPath, showPath } from '../model/path.ts';
import type { WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { factsOf, openBeneath, writerState } from '../native/files.ts';
import { absolutePath, moveAside, ownDir, putBack } from '../native/own-dir.ts';
import { JOURNAL, type JournalEntry, readJournal } from './journal.ts';

/**
 * What became of one file. `put-back`: it is where it was, a scan captures it again if it has to. `finished`:
 * its path was made anew, its own bytes are durable, it is deleted. `aside`: its path was made anew or is not
 * known, and its bytes may be stored nowhere: it is kept at `aside`.
 */
export type Recovered =
  | { readonly kind: 'put-back' | 'finished'; readonly path: RelPath }
  | { readonly kind: 'aside'; readonly path: RelPath | undefined; readonly aside: RelPath };

/**
 * Puts an end to all reclaims that a dead process left, and takes its journal away. The caller holds the lock of the
 * work directory: no reclaimer is open. Throws when a file can neither go back nor aside; then the journal stays.
 */
export async function recoverReclaims(root: WorkDir): Promise<readonly Recovered[]> {
  const dir = ownDir(root, 'reclaim');
  const entries = readJournal(root);
  const names = await fs.promises.readdir(absolutePath(root, dir), { encoding: 'buffer' });
  const recovered = names.map(decodePath).map((name) => {
    const from = `${dir}/${name}`;
    try {
      reached('recover.before-file');
      return recover(root, from, entries.get(name));
    } catch (error) {
      const what = `${from} of an earlier start`;
      throw new CaptureError(EXIT.unavailable, `cannot recover ${what} in ${root.path}: ${reasonOf(error)}`, {
        hint: `check the rights in ${root.path}, or move the file away by hand`,
        cause: error,
      });
    }
  });
  reached('recover.before-journal');
  await fs.promises.rm(absolutePath(root, JOURNAL), { force: true });
  return recovered;
}

function recover(root: WorkDir, from: RelPath, entry: JournalEntry | undefined): Recovered {
  if (entry === undefined) return { kind: 'aside', path: undefined, aside: moveAside(root, from, from) };
  const { path } = entry;
  if (putBack(root, from, path)) {
    reached('recover.after-file');
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
