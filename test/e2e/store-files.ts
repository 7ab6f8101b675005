// The keys of a file store, read from its directory by hand: tests must not see it through our own driver.
import fs from 'node:fs';
import path from 'node:path';

/** All object keys, ascending; the driver's own folder is left out. */
export function readFound(store: string, below = ''): readonly string[] {
  let entries: fs.Dirent[];
  try {
    entries = fs.readdirSync(path.join(store, below), { withFileTypes: true });
  } catch {
    return [];
  }
  return entries
    .flatMap((entry) => {
      const key = below === '' ? entry.name : `${below}/${entry.name}`;
      if (key === '.capture-store') return [];
      return entry.isDirectory() ? readFound(store, key) : [key];
    })
    .toSorted();
}
