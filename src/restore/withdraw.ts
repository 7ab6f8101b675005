// Takes a checkpoint set that failed its check out of the work directory again, so that the task finds only what the
// set before it has. It deletes only bytes that are in the store; a companion that is longer is moved aside.
import fs from 'node:fs';
import type { Generation } from '../model/format/records.ts';
import { isInside, type RelPath } from '../model/path.ts';
import { beneath, lstatBeneath } from '../native/beneath.ts';
import { moveAside } from '../native/own-dir.ts';
import type { WorkDir } from '../native/work-dir.ts';

/** A local file that was longer than what is stored of it, and where it is now. */
export interface KeptAside {
  readonly path: RelPath;
  readonly aside: RelPath;
}

/** Members stand as they are stored; of a companion a longer local file may have stayed (restore/local.ts). */
export function withdraw(root: WorkDir, { members, companions }: Generation): readonly KeptAside[] {
  const kept: KeptAside[] = [];
  const inside = <T extends { path: RelPath }>(files: readonly T[]): readonly T[] =>
    files.filter(({ path }) => isInside(path));
  for (const { path } of inside(members)) remove(root, path);
  for (const { path, size } of inside(companions)) {
    const there = lstatBeneath(root, path);
    if (there === undefined) continue;
    if (there.isFile() && there.size <= size) remove(root, path);
    else kept.push({ path, aside: moveAside(root, path, path) });
  }
  return kept;
}

function remove(root: WorkDir, path: RelPath): void {
  beneath(root, path, (full) => fs.rmSync(full, { force: true }));
}
