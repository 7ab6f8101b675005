// The name of a file in `.capture/reclaim/`: it contains the file's path, and the state whose bytes are durable. One
// rename writes both, even on a full file system, and the next start reads them after a crash.
import fs from 'node:fs';
import type { Fingerprint } from '../model/file/file-state.ts';
import { isInside, pathBytes, type RelPath } from '../model/path.ts';
import { beneath, type WorkDir } from '../native/beneath.ts';
import { tidyUp } from '../native/tidy.ts';

/** The limit of file systems for a component of a path. */
const COMPONENT_LIMIT_BYTES = 255;
/** The first character of each further component, so that none is `..`. */
const CONTINUED = '~';

export interface SetAside {
  /** Never reused. */
  readonly id: string;
  /** The path before the file was set aside. */
  readonly path: RelPath;
  /** The state whose bytes are durable. */
  readonly pushed: Pick<Fingerprint, 'size' | 'mtimeNs'>;
}

/**
 * The name, below `.capture/reclaim/`. Most names are one component. A longer one continues in further components, and
 * the last of these is the file.
 */
export function setAsideName({ id, path, pushed: { size, mtimeNs } }: SetAside): RelPath {
  // Each `/` becomes one byte: the longest paths have no room for more.
  const escaped = path.replaceAll('%', '%25').replaceAll('|', '%7C').replaceAll('/', '|');
  const parts: string[] = [];
  let part = `${id}.${size}.${mtimeNs}~`;
  if (pathBytes(part + escaped).length <= COMPONENT_LIMIT_BYTES) return part + escaped;
  let bytes = part.length;
  for (const char of escaped) {
    const more = pathBytes(char).length;
    if (bytes + more > COMPONENT_LIMIT_BYTES) {
      parts.push(part);
      part = CONTINUED;
      bytes = part.length;
    }
    part += char;
    bytes += more;
  }
  return [...parts, part].join('/');
}

/** The parsed name; undefined: capture has not set this file aside. */
export function parseSetAside(name: RelPath): SetAside | undefined {
  const match = /^([\w-]+)\.(\d+)\.(-?\d+)~(.+)$/s.exec(name.replaceAll(`/${CONTINUED}`, ''));
  if (match === null) return undefined;
  const [, id = '', size, mtimeNs = '', escaped = ''] = match;
  const path = escaped.replaceAll('|', '/').replaceAll('%7C', '|').replaceAll('%25', '%');
  return isInside(path) ? { id, path, pushed: { size: Number(size), mtimeNs } } : undefined;
}

/** `aside`: relative to the work directory. Creates the directories of a name with several components. */
export function makeInnerDirs(root: WorkDir, aside: RelPath): void {
  for (const dir of innerDirs(aside)) beneath(root, dir, (full) => fs.mkdirSync(full, { mode: 0o700 }));
}

/** Removes these directories if they are empty. */
export function removeInnerDirs(root: WorkDir, aside: RelPath): void {
  for (const dir of innerDirs(aside).toReversed()) tidyUp(() => beneath(root, dir, fs.rmdirSync));
}

/** Below `.capture/reclaim`, the outermost first. */
function innerDirs(aside: RelPath): readonly RelPath[] {
  const parts = aside.split('/');
  return parts.slice(3).map((_, at) => parts.slice(0, at + 3).join('/'));
}
