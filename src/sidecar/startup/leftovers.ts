// Files that a killed attempt wrote in this work directory after the restored checkpoint set, and that the set does not
// have: they belong to another round, and may be half-written. They are moved aside, so that the task finds the same
// files as on a new machine.
import fs from 'node:fs';
import { generationName } from '../../model/checkpoint/history.ts';
import type { Manifest } from '../../model/file/manifest.ts';
import type { Generation } from '../../model/format/records.ts';
import { ancestorsOf, type RelPath, showPath } from '../../model/path.ts';
import { beneath, type WorkDir } from '../../native/beneath.ts';
import { moveAside } from '../../native/own-dir.ts';
import { findInTurns, type FoundFile } from '../../watch/scan.ts';
import type { RestoreJob } from './restore-job.ts';

/** More names than anybody reads. */
const MOST_NAMES = 10;

/** Call it when the set is in place. */
export async function setLeftoversAside(job: RestoreJob, generation: Generation): Promise<void> {
  const { root, manifest, settings, log, signal } = job;
  // Then the local files count, whatever they are.
  if (settings.onLocal === 'newest') return;
  const walk = { root, interest: manifest, onUnreadable: () => undefined };
  const isLeftover = leftoverOf(generation, manifest);
  const leftovers: RelPath[] = [];
  for await (const files of findInTurns(walk, 'pool', signal))
    leftovers.push(...files.filter(isLeftover).map(({ path }) => path));
  if (leftovers.length === 0) return;
  for (const path of leftovers) {
    moveAside(root, path, path);
    removeEmpty(root, path);
  }
  const names = leftovers.slice(0, MOST_NAMES).map(showPath).join(', ');
  const more = leftovers.length > MOST_NAMES ? `, and ${leftovers.length - MOST_NAMES} more` : '';
  log.warn(
    `written after checkpoint ${generationName(generation)} and not in it, now in .capture/aside/: ${names}${more}`,
    { hint: '--on-local newest keeps newer local files, and then none of the set is restored' },
  );
}

/** Checkpoint files that are newer than every file of the set, and not in it. */
function leftoverOf({ members, companions }: Generation, manifest: Manifest): (found: FoundFile) => boolean {
  const ours = new Set([...members, ...companions].map(({ path }) => path));
  const newestNs = members.map(({ mtimeNs }) => BigInt(mtimeNs)).reduce((a, b) => (a > b ? a : b), 0n);
  return ({ path, facts }) => {
    if (ours.has(path) || BigInt(facts.mtimeNs) <= newestNs) return false;
    const { checkpoint, input } = manifest.rolesOf(path);
    return checkpoint && !input;
  };
}

/** A program may take a directory for a checkpoint by its name alone. */
function removeEmpty(root: WorkDir, path: RelPath): void {
  for (const dir of ancestorsOf(path).slice(0, -1)) {
    try {
      beneath(root, dir, (full) => fs.rmdirSync(full));
    } catch {
      return; // not empty: ENOTEMPTY, or not ours to remove
    }
  }
}
