// Which files a `capture put` sends, and under which names. A directory is walked as cp -r does; links are followed to
// files, but not to directories, because those could lead in a circle.
import fs from 'node:fs';
import type { Log } from '../../log/log.ts';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { inputKey } from '../../model/format/keys.ts';
import { isRecordKey } from '../../model/format/origin.ts';
import { encodePath, joinPath, type RelPath, showPath } from '../../model/path.ts';
import { entriesIn } from '../../native/directory-entries.ts';
import { StrangersLink } from '../../native/followed-links.ts';
import { roomInHeap, tooManyForHeap } from '../../native/heap.ts';
import { isOursOrRoots } from '../../native/users.ts';

export interface LocalFile {
  /** As it is opened. */
  readonly path: string;
  /** What a task calls it. */
  readonly name: RelPath;
  readonly key: string;
  /** When it was found. */
  readonly sizeBytes: number;
}

export interface LocalFiles {
  readonly files: readonly LocalFile[];
  /** How many names in the directories are neither a file nor a directory that can be read. */
  readonly leftOut: number;
}

/** What the heap needs for a file or directory beside its path and its name. */
const ENTRY_BYTES = 150;

/**
 * Throws status 66 if a file does not exist, 64 if two have one name or a name is capture's own, and 69 if there are more
 * than fit into half of the heap.
 */
export function localFiles(names: readonly string[], log: Log): LocalFiles {
  let leftOut = 0;
  let leftBytes = roomInHeap();
  const leaveOut = (path: string, name: RelPath, why: string): void => {
    leftOut += 1;
    log.warn(`${showPath(path)} is left out: ${why}`, { event: 'not-stored', path: name });
  };
  const keep = (path: string, name: RelPath): void => {
    leftBytes -= ENTRY_BYTES + path.length + name.length;
    if (leftBytes < 0) throw tooManyForHeap('files to put', found.size, 'put fewer of them at once');
  };
  const found = new Map<string, LocalFile>();
  const add = (path: string, name: RelPath, sizeBytes: number): void => {
    const key = inputKey(name);
    const other = found.get(key);
    if (other !== undefined && other.path !== path)
      throw new CaptureError(
        EXIT.usage,
        `${showPath(other.path)} and ${showPath(path)} have one name in the store`,
        {
          hint: 'put each below a prefix of its own, or the directory that holds both',
        },
      );
    if (isRecordKey(key))
      throw new CaptureError(EXIT.usage, `${showPath(path)}: .capture/ is where capture keeps its records`, {
        hint: 'leave it out, or give it another name',
      });
    found.set(key, { path, name, key, sizeBytes });
    keep(path, name);
  };
  for (const path of names) {
    const stat = statOf(path);
    const name = nameOf(path);
    if (stat.isFile()) add(path, name, stat.size);
    else if (stat.isDirectory()) walk(path, name, { add, keep, leaveOut });
    else throw new CaptureError(EXIT.usage, `${showPath(path)} is neither a file nor a directory`);
  }
  return { files: [...found.values()], leftOut };
}

/** A link to a directory is followed as one to a file is (native/followed-links). */
function statOf(path: string): fs.Stats {
  try {
    const stat = fs.statSync(encodePath(path));
    const link = fs.lstatSync(encodePath(path.replace(/(?<=.)\/+$/, '')));
    if (stat.isDirectory() && link.isSymbolicLink() && link.uid !== stat.uid && !isOursOrRoots(link.uid))
      throw new StrangersLink(link.uid, stat.uid);
    return stat;
  } catch (error) {
    const hint = error instanceof StrangersLink ? error.hint : undefined;
    const status = errnoOf(error) === 'ENOENT' ? EXIT.inputMissing : EXIT.usage;
    throw new CaptureError(status, `${showPath(path)}: ${reasonOf(error)}`, { hint, cause: error });
  }
}

/** The last component: `data/` is `data`; what has none (`.`, `..`, `/`) puts its files under their own names. */
function nameOf(path: string): RelPath {
  const last = path.replace(/\/+$/, '').split('/').at(-1) ?? '';
  return last === '.' || last === '..' ? '' : last;
}

interface Found {
  readonly add: (path: string, name: RelPath, sizeBytes: number) => void;
  /** Counts what is kept. */
  readonly keep: (path: string, name: RelPath) => void;
  readonly leaveOut: (path: string, name: RelPath, why: string) => void;
}

/** A file, or a link to one. A link may lead nowhere, in a circle, or where nobody may look. */
function addOne(path: string, name: RelPath, { add, leaveOut }: Found): void {
  let stat: fs.Stats;
  try {
    stat = fs.statSync(encodePath(path));
  } catch (error) {
    return leaveOut(path, name, reasonOf(error));
  }
  if (stat.isFile()) add(path, name, stat.size);
  else leaveOut(path, name, 'it is no file');
}

/** One directory is open at a time, however deep they are. */
function walk(top: string, topName: RelPath, found: Found): void {
  const waiting = [{ dir: top, name: topName }];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const { dir, name } = at;
    try {
      for (const entry of entriesIn(dir)) {
        // Not normalised: `link/..` is the parent of what the link leads to.
        const [path, inner] = [`${dir.replace(/\/*$/, '/')}${entry.name}`, joinPath(name, entry.name)];
        if (!entry.isDirectory()) addOne(path, inner, found);
        else {
          found.keep(path, inner);
          waiting.push({ dir: path, name: inner });
        }
      }
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      found.leaveOut(dir, name, reasonOf(error));
    }
  }
}
