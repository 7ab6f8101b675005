// A directory store is made by its first put. So a mistyped --to is a new, empty store: the first lines say so.
import fs from 'node:fs';
import { encodePath } from '../../model/path.ts';
import { storeDirectory } from '../../store/url.ts';

/** True when the store is to be a directory of this machine, and nothing stands there. */
export function isMissing(url: string): boolean {
  const directory = storeDirectory(url);
  if (directory === undefined) return false;
  try {
    return fs.statSync(encodePath(directory), { throwIfNoEntry: false }) === undefined;
  } catch {
    return false; // The first request says why it cannot be seen.
  }
}
