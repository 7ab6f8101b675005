// A local file that makes room for a stored one: it is moved, never overwritten, and the user is told where it
// is and which of the two is newer.
import fs from 'node:fs';
import { showPath, type RelPath } from '../model/path.ts';
import { absolutePath, moveAside } from '../native/own-dir.ts';
import type { WorkDir } from '../native/work-dir.ts';
import type { Source } from './source.ts';

export interface SetAside {
  readonly path: RelPath;
  /** Where the local file is now. */
  readonly aside: RelPath;
  /** Which of the two was modified later; undefined: nobody can tell. */
  readonly newer: 'local' | 'stored' | undefined;
}

/** Moves what stands at the path of `source` to `.capture/aside/`. */
export function setAside(root: WorkDir, { path, mtimeNs }: Source): SetAside {
  const local = fs.lstatSync(absolutePath(root, path), { bigint: true });
  const aheadNs = mtimeNs === undefined ? 0n : local.mtimeNs - BigInt(mtimeNs);
  const newer = aheadNs === 0n ? undefined : aheadNs > 0n ? 'local' : 'stored';
  return { path, aside: moveAside(root, path, path), newer };
}

/** The warning, as one line. */
export function describeSetAside({ path, aside, newer }: SetAside): string {
  const age = newer === undefined ? '' : newer === 'local' ? 'newer ' : 'older ';
  return `${showPath(path)}: the stored one is restored; the ${age}local one, which differs, is now ${showPath(aside)}`;
}
