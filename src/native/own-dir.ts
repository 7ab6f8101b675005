// Our own directory in the work directory, `.capture/`, and moves between it and the task's files. Every directory is
// made or checked component by component: links are never followed, files never overwritten.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import { decodePath, encodePath, joinPath, pathBytes, type RelPath } from '../model/path.ts';
import {
  beneath,
  beneathAsText,
  beneathAsync,
  heldPath,
  isBlocked,
  lstatBeneath,
  type WorkDir,
} from './beneath.ts';
import { renameNoReplace } from './files.ts';
import { systemError } from './libc.ts';
import { makePrivateDir, openPrivateDir } from './private-dir.ts';
import { removeTree } from './remove-tree.ts';

/** `reclaim`: files about to be deleted; `aside`: files kept for the user; `restore`, `gather`: downloads under way. */
export type OwnPlace = 'reclaim' | 'aside' | 'restore' | 'gather';

/** File systems allow 255 bytes; the rest is for the number in front. */
const ASIDE_NAME_LIMIT_BYTES = 240;

/** Makes `.capture/<place>` if it is missing. Only our user has access, because its files may be secret. */
export function ownDir(root: WorkDir, place: OwnPlace): RelPath {
  const own = openPrivateDir(`${heldPath(root)}/${OWN_DIR}`);
  try {
    makePrivateDir(`${own.at}/${place}`);
    return `${OWN_DIR}/${place}`;
  } finally {
    own.close();
  }
}

/** Removes a file, or a directory with all that is in it. Follows no link. */
export async function removeBeneath(root: WorkDir, path: RelPath): Promise<void> {
  try {
    await beneathAsync(root, path, (full) => removeTree(typeof full === 'string' ? full : decodePath(full)));
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' && !isBlocked(error)) throw error;
  }
}

/** The absolute path, for node:fs. */
export function absolutePath(root: WorkDir, path: RelPath): string | Buffer {
  return encodePath(`${heldPath(root)}/${path}`);
}

/** Makes the directories above `path`. Throws ENOTDIR or ELOOP if something else, even a link, is in the way. */
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
    // Another process was faster. The caller checks what it made.
    if (errnoOf(error) !== 'EEXIST') throw error;
  }
}

/** Renames inside the work directory. False if the new name is taken; then nothing changes. */
export function moveInside(root: WorkDir, from: RelPath, to: RelPath): boolean {
  return beneathAsText(root, from, (source) =>
    beneathAsText(root, to, (target) => renameNoReplace(source, target)),
  );
}

/** Moves a file back to where it was; false if that path is taken, or a file or link is in place of a directory. */
export function putBack(root: WorkDir, from: RelPath, path: RelPath): boolean {
  try {
    makeParents(root, path);
    return moveInside(root, from, path);
  } catch (error) {
    if (isBlocked(error)) return false;
    throw error;
  }
}

/** Moves a file to `.capture/aside/<n>-<name of path>` with the first free n. Returns the new path. */
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
