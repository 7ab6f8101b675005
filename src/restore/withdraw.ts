// Takes a checkpoint set that failed its check out of the work directory again, so that the task finds nothing that
// the set before does not have. Deletes only bytes that are in the store; a companion that is longer is kept aside.
import fs from 'node:fs';
import { isInside } from '../core/path.ts';
import type { Generation } from '../core/records.ts';
import { absolutePath, moveAside, type WorkDir } from '../native/own-dir.ts';
import type { RelPath } from '../core/path.ts';

/** A local file that was longer than what is stored of it, and where it is now. */
export interface KeptAside {
  readonly path: RelPath;
  readonly aside: RelPath;
}

/** Members stand as they are stored; of a companion a longer local file may have stayed (restore/companions.ts). */
export async function withdraw(root: WorkDir, generation: Generation): Promise<readonly KeptAside[]> {
  const kept: KeptAside[] = [];
  for (const { path } of generation.members) await fs.promises.rm(absolutePath(root, path), { force: true });
  for (const { path, size } of generation.companions) {
    if (!isInside(path)) continue;
    const there = fs.lstatSync(absolutePath(root, path), { throwIfNoEntry: false });
    if (there === undefined) continue;
    if (there.isFile() && there.size <= size) await fs.promises.rm(absolutePath(root, path), { force: true });
    else kept.push({ path, aside: moveAside(root, path, path) });
  }
  return kept;
}
