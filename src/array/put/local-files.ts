// Which files a `capture put` sends, and under which names. A directory is walked as cp -r does; links are followed to
// files, but not to directories, because those could lead in a circle.
import fs from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../log/log.ts';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { inputKey } from '../../model/format/keys.ts';
import { isRecordKey } from '../../model/format/origin.ts';
import { decodePath, encodePath, joinPath, type RelPath, showPath } from '../../model/path.ts';

export interface LocalFile {
  /** As it is opened. */
  readonly path: string;
  /** What a task calls it. */
  readonly name: RelPath;
  readonly key: string;
  /** When it was found. */
  readonly sizeBytes: number;
}

/** Throws status 66 if a file does not exist, and 64 if two have one name or a name is capture's own. */
export function localFiles(names: readonly string[], log: Log): readonly LocalFile[] {
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
  };
  for (const path of names) {
    const stat = statOf(path);
    const name = nameOf(path);
    if (stat.isFile()) add(path, name, stat.size);
    else if (stat.isDirectory()) walk(path, name, add, log);
    else throw new CaptureError(EXIT.usage, `${showPath(path)} is neither a file nor a directory`);
  }
  return [...found.values()];
}

function statOf(path: string): fs.Stats {
  try {
    return fs.statSync(encodePath(path));
  } catch (error) {
    const status = errnoOf(error) === 'ENOENT' ? EXIT.inputMissing : EXIT.usage;
    throw new CaptureError(status, `${showPath(path)}: ${reasonOf(error)}`, { cause: error });
  }
}

/** The last component: `data/` is `data`; what has none (`.`, `..`, `/`) puts its files under their own names. */
function nameOf(path: string): RelPath {
  const last = path.replace(/\/+$/, '').split('/').at(-1) ?? '';
  return last === '.' || last === '..' ? '' : last;
}

function walk(
  dir: string,
  name: RelPath,
  add: (path: string, name: RelPath, sizeBytes: number) => void,
  log: Log,
): void {
  const entries = fs.readdirSync(encodePath(dir), { withFileTypes: true, encoding: 'buffer' });
  for (const entry of entries) {
    const own = decodePath(entry.name);
    const [path, inner] = [join(dir, own), joinPath(name, own)];
    if (entry.isDirectory()) walk(path, inner, add, log);
    else {
      const stat = fs.statSync(encodePath(path), { throwIfNoEntry: false });
      if (stat?.isFile() === true) add(path, inner, stat.size);
      else log.warn(`${showPath(path)} is no file, and is left out`, { event: 'not-stored', path: inner });
    }
  }
}
