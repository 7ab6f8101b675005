// Asks for the room that a restore needs before the first byte is fetched: better no start than a work
// directory that is full of half a checkpoint.
import fs from 'node:fs';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { encodePath } from '../model/path.ts';
import { formatBytes, plural } from '../model/units.ts';
import type { WorkDir } from '../native/work-dir.ts';
import type { Source } from './source.ts';

/** Throws when the sizes that are known do not fit; `free` answers for the file system (statfs(2)). */
export async function checkSpace(
  root: WorkDir,
  sources: readonly Source[],
  free: (path: string | Buffer) => Promise<number> = freeBytes,
): Promise<void> {
  const needed = sources.reduce((sum, { size = 0 }) => sum + size, 0);
  const available = await free(encodePath(root.path));
  if (needed <= available) return;
  const what = `${plural(sources.length, 'file')} (${formatBytes(needed)})`;
  throw new CaptureError(
    EXIT.unavailable,
    `cannot restore ${what} into ${root.path}: ${formatBytes(available)} are free`,
    { hint: 'free space there, or name a larger work directory with --workdir' },
  );
}

async function freeBytes(path: string | Buffer): Promise<number> {
  const { blocks, bavail, bsize } = await fs.promises.statfs(path);
  // A tmpfs without a limit, and some FUSE file systems, say that they have no blocks at all.
  return blocks === 0 ? Infinity : bavail * bsize;
}
