// Our own directory in the work directory, `.capture/`, and the moves between it and the task's files. Every
// directory is made or checked component by component: a link is never followed, a file never overwritten.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import { decodePath, encodePath, joinPath, pathBytes, type RelPath } from '../model/path.ts';
import {
  beneath,
  beneathAsText,
  beneathMeanwhile,
  heldPath,
  isBlocked,
  lstatBeneath,
  type WorkDir,
} from './beneath.ts';
import { renameNoReplace } from './files.ts';
import { systemError } from './libc.ts';
import { makePrivateDir, openPrivateDir } from './private-dir.ts';

/** `reclaim`: files on their way to deletion; `aside`: kept for the user; `restore`, `gather`: downloads under way. */
export type OwnPlace = 'reclaim' | 'aside' | 'restore' | 'gather';

/** File systems allow 255 bytes; what is left is for the number in front. */
const ASIDE_NAME_LIMIT_BYTES = 240;

/** `.capture/<place>`, made when it is not there; for our user only, as the files in it may be secret. */
export function ownDir(root: WorkDir, place: OwnPlace): RelPath {
  const own = openPrivateDir(`${heldPath(root)}/${OWN_DIR}`);
  try {
    makePrivateDir(`${own.at}/${place}`);
    return `${OWN_DIR}/${place}`;
  } finally {
    own.close();
  }
}

/** Removes `.capture/<place>` with all in it. Through no link: what that leads to is somebody else's. */
export function removeOwnDir(root: WorkDir, place: OwnPlace): void {
  try {
    beneath(root, `${OWN_DIR}/${place}`, (full) => fs.rmSync(full, { recursive: true, force: true }));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && !isBlocked(error)) throw error;
  }
}

/** Removes a file or a directory with all in it. Through no link, either. */
export async function removeBeneath(root: WorkDir, path: RelPath): Promise<void> {
  try {
    await beneathMeanwhile(root, path, (full) => fs.promises.rm(full, { recursive: true, force: true }));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && !isBlocked(error)) throw error;
  }
}

/** The path as node:fs wants it. */
export function absolutePath(root: WorkDir, path: RelPath): string | Buffer {
  return encodePath(`${heldPath(root)}/${path}`);
}

/** Makes the directories above `path`. Throws ENOTDIR or ELOOP where something else, a link too, stands in the way. */
export function makeParents(root: WorkDir, path: RelPath): void {
  const parts = path.split('/').slice(0, -1);
  let dir = '';
  for (const part of parts) {
    dir = joinPath(dir, part);
    if (lstatBeneath(root, dir) === undefined) beneath(root, dir, makeDir);
    if (lstatBeneath(root, dir)?.isDirectory() !== true)
      throw systemError('mkdir (not a directory)', 'ENOTDIR', dir);
  }
}

function makeDir(absolute: string | Buffer): void {
  try {
    fs.mkdirSync(absolute);
  } catch (error) {
    // Another process was faster; the caller looks at what it made.
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

/** Renames inside the work directory; false, and nothing is changed, when the new name is taken. */
export function moveInside(root: WorkDir, from: RelPath, to: RelPath): boolean {
  return beneathAsText(root, from, (source) =>
    beneathAsText(root, to, (target) => renameNoReplace(source, target)),
  );
}

/** Moves a file back to where it was; false when the path is taken, or a file or link stands in place of a directory. */
export function putBack(root: WorkDir, from: RelPath, path: RelPath): boolean {
  try {
    makeParents(root, path);
    return moveInside(root, from, path);
  } catch (error) {
    if (isBlocked(error)) return false;
    throw error;
  }
}

/** Moves a file to `.capture/aside/<n>-<name of path>` with the first free n, and says where it is. */
export function moveAside(root: WorkDir, from: RelPath, path: RelPath): RelPath {
  const dir = ownDir(root, 'aside');
  const name = decodePath(
    pathBytes(path.slice(path.lastIndexOf('/') + 1)).subarray(0, ASIDE_NAME_LIMIT_BYTES),
  );
  for (let n = 1; ; n += 1) {
    const aside = `${dir}/${n}-${name}`;
    if (moveInside(root, from, aside)) return aside;
  }
}
