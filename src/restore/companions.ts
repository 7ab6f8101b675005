// The companions of a generation as a restore needs them. A local file that begins with the stored bytes stays:
// it is at least as long as the checkpoint says, and the task cuts it back by itself.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import type { Companion } from '../model/format/records.ts';
import { isInside } from '../model/path.ts';
import { openBeneath } from '../native/files.ts';
import { md5OfFile } from '../native/md5.ts';
import type { WorkDir } from '../native/work-dir.ts';
import type { Source } from './source.ts';

/** Those that are to be fetched. */
export async function wantedCompanions(
  root: WorkDir,
  companions: readonly Companion[],
  signal: AbortSignal,
): Promise<readonly Source[]> {
  const wanted: Source[] = [];
  for (const companion of companions) {
    // oxlint-disable-next-line no-await-in-loop -- one core hashes one file after the other
    if (!(await isHere(root, companion, signal))) wanted.push(sourceOf(companion));
  }
  return wanted;
}

function sourceOf({ path, size, mode, segments }: Companion): Source {
  return { path, kind: 'file', key: '', compressed: false, size, mode, segments };
}

async function isHere(root: WorkDir, companion: Companion, signal: AbortSignal): Promise<boolean> {
  // A name that leads out is refused when it is fetched; here it is not even looked at.
  if (!isInside(companion.path)) return false;
  let fd: number;
  try {
    fd = openBeneath(root, companion.path);
  } catch (error) {
    // Absent, or a link, a directory, a device, a file that we may not read: not the one that was stored.
    if (errnoOf(error) !== undefined) return false;
    throw error;
  }
  try {
    for (const { first, size, md5 } of companion.segments) {
      // oxlint-disable-next-line no-await-in-loop -- the first that differs ends it
      if ((await md5OfFile(fd, signal, { first, end: first + size })) !== md5) return false;
    }
    return true;
  } finally {
    fs.closeSync(fd);
  }
}
