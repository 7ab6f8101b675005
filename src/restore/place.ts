// Moves downloaded files into place once all of them are whole. A set is placed entirely or not at all, and removed
// again if it fails the user's check. A local file is never overwritten: it is moved aside, and a message says where
// it is and which of the two is newer.
import fs from 'node:fs';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { Generation } from '../model/format/records.ts';
import { isInside, type RelPath, showPath } from '../model/path.ts';
import { beneath, lstatBeneath, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { systemError } from '../native/libc.ts';
import { makeParents, moveAside, moveInside } from '../native/own-dir.ts';
import type { Staged } from './fetch.ts';
import type { Source } from './source.ts';
import type { Fetched } from './staging.ts';

/** A local file that was moved aside for a stored one. */
export interface SetAside {
  readonly path: RelPath;
  /** The new path of the local file. */
  readonly aside: RelPath;
  /** Which of the two was modified later; undefined: unknown. */
  readonly newer: 'local' | 'stored' | undefined;
}

/** One file that is in place. */
export interface Placed {
  readonly source: Source;
  readonly md5: string;
  readonly size: number;
  /** The different local file that was at its path. */
  readonly setAside: SetAside | undefined;
}

type Whole = Extract<Fetched, { kind: 'ok' }>;

/** Renames every file into place. Throws before the first rename if one is not whole, or cannot be placed. */
export function placeAll(root: WorkDir, staged: Staged): readonly Placed[] {
  const files = staged.files.filter((file) => file.kind === 'ok');
  if (files.length < staged.files.length) {
    throw new CaptureError(EXIT.internal, `cannot place ${staged.files.length} files: not all are whole`);
  }
  for (const file of files) attempt(root, file, () => makeRoom(root, file));
  return files.map((file) => attempt(root, file, () => place(root, file)));
}

function makeRoom(root: WorkDir, { source: { path } }: Whole): void {
  makeParents(root, path);
  refuseDirectory(root, path);
}

function refuseDirectory(root: WorkDir, path: RelPath): void {
  const there = lstatBeneath(root, path);
  // Moving a whole directory aside would move files that nobody named.
  if (there?.isDirectory() === true) throw systemError('rename (a directory of that name)', 'EISDIR', path);
}

function place(root: WorkDir, { source, temp, md5, size }: Whole): Placed {
  let asideNow: SetAside | undefined;
  reached('restore.before-place');
  while (!moveInside(root, temp, source.path)) {
    refuseDirectory(root, source.path);
    asideNow = setAside(root, source);
  }
  reached('restore.placed');
  return { source, md5, size, setAside: asideNow };
}

/** Moves the file at the path of `source` to `.capture/aside/`. */
function setAside(root: WorkDir, { path, mtimeNs }: Source): SetAside {
  const local = beneath(root, path, (full) => fs.lstatSync(full, { bigint: true }));
  const aheadNs = mtimeNs === undefined ? 0n : local.mtimeNs - BigInt(mtimeNs);
  const newer = aheadNs === 0n ? undefined : aheadNs > 0n ? 'local' : 'stored';
  return { path, aside: moveAside(root, path, path), newer };
}

/** The warning, in one line. */
export function describeSetAside({ path, aside, newer }: SetAside): string {
  const age = newer === undefined ? '' : newer === 'local' ? 'newer ' : 'older ';
  return `${showPath(path)}: the stored one is restored; the ${age}local one, which differs, is now ${showPath(aside)}`;
}

/** A rename is atomic, and it cannot cross file systems (rename(2)). */
const MOUNTED_HINT = 'another file system is mounted there: make it the work directory (--workdir)';

function attempt<T>(root: WorkDir, { source }: Whole, step: () => T): T {
  try {
    return step();
  } catch (error) {
    const what = `${showPath(source.path)} in ${root.path}`;
    throw new CaptureError(EXIT.unavailable, `cannot place ${what}: ${reasonOf(error)}`, {
      hint:
        errnoOf(error) === 'EXDEV'
          ? MOUNTED_HINT
          : 'move away what is in its place, or check the rights of the directory',
      cause: error,
    });
  }
}

/** A local file that was longer than its stored part, and its new path. */
export interface KeptAside {
  readonly path: RelPath;
  readonly aside: RelPath;
}

/**
 * Removes a set that failed its check from the work directory, so that the task finds only the files of the previous
 * set. Deletes only bytes that are in the store. A longer local file of a companion may have stayed (local.ts): it is
 * moved aside.
 */
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
