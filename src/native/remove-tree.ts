// Removes a directory with all that is below it, whatever a program has left there: names are read a few at a time, as a
// million of them need not fit into memory. Of what stands at a link nothing is touched.
import fs from 'node:fs';
import { setImmediate as others } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { decodePath, encodePath } from '../model/path.ts';

/** Names read at once; the deeper, the fewer, so that all levels together stay some thousand. */
const MOST_NAMES = 1024;
const FEWEST_NAMES = 8;
/** Some file systems pass over names while others go; and a program that is still there may make new ones. */
const MOST_PASSES = 100;
/** Removed before anything else has its turn. A call takes some 10 us, a promise ten times that. */
const AT_ONCE = 32;

/** Of a file or a directory that is not there nothing is said. Throws as unlink(2) and rmdir(2). */
export async function removeTree(path: string): Promise<void> {
  const isDirectory = fs.lstatSync(encodePath(path), { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (isRemoved({ path, isDirectory })) return;
  await emptyDirectory(path);
  fs.rmdirSync(encodePath(path));
}

/** The same of all that is in a directory, which stays. */
export async function emptyDirectory(dir: string, depth = 1): Promise<void> {
  for (let pass = 0; pass < MOST_PASSES; pass += 1) if ((await removeOnce(dir, depth)) === 0) return;
}

/** How many names there were. */
async function removeOnce(dir: string, depth: number): Promise<number> {
  let count = 0;
  try {
    // The names as they are: a program may use any bytes.
    const encoding = 'buffer' as BufferEncoding;
    const bufferSize = Math.max(FEWEST_NAMES, Math.floor(MOST_NAMES / depth));
    for await (const entry of await fs.promises.opendir(encodePath(dir), { encoding, bufferSize })) {
      if (count % AT_ONCE === 0) await others();
      count += 1;
      const path = `${dir}/${decodePath(entry.name as unknown as Buffer)}`;
      const one = { path, isDirectory: entry.isDirectory() };
      if (isRemoved(one)) continue;
      await emptyDirectory(path, depth + 1);
      isRemoved(one);
    }
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
  return count;
}

interface Found {
  readonly path: string;
  readonly isDirectory: boolean;
}

/** False if it is a directory that is not empty. */
function isRemoved({ path, isDirectory }: Found): boolean {
  try {
    if (isDirectory) fs.rmdirSync(encodePath(path));
    else fs.unlinkSync(encodePath(path));
  } catch (error) {
    const code = errnoOf(error);
    // rmdir(2) may say either.
    if (code === 'ENOTEMPTY' || code === 'EEXIST') return false;
    if (code !== 'ENOENT') throw error;
  }
  return true;
}
