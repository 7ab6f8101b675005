// Does the work directory run short of space or memory? One look each time that somebody asks; when to look is
// sidecar/disk's.
import fs from 'node:fs/promises';
import { readUses } from '../native/uses.ts';

/** Above this share of any limit there is pressure. */
export const HIGH_USE = 0.8;
/** Above this one there may be soon. */
const NEAR_USE = 0.5;
/** Reclaiming is worth it when it frees at least this share of the use. */
const WORTHWHILE = 0.1;
/** statfs(2), f_type. */
const OVERLAYFS_MAGIC = 0x794c7630;

/** `near`: not `high` yet, but more than half is in use. */
export type Pressure = 'none' | 'near' | 'high';

/**
 * `high` when file system bytes, inodes or (on tmpfs) the memory of a cgroup are used above 80 %, and what
 * could be reclaimed is at least 10 % of that use. Never on overlayfs: a deletion there frees nothing below.
 */
export async function pressureOn(
  dir: string,
  reclaimableBytes: number,
  reclaimableFiles: number,
): Promise<Pressure> {
  const stat = await fs.statfs(dir);
  if (stat.type === OVERLAYFS_MAGIC) return 'none';
  const shares = readUses(stat).map(({ of, used, limit }) => {
    const reclaimable = of === 'files' ? reclaimableFiles : reclaimableBytes;
    return limit > 0 && reclaimable >= used * WORTHWHILE ? used / limit : 0;
  });
  const share = Math.max(...shares);
  return share > HIGH_USE ? 'high' : share > NEAR_USE ? 'near' : 'none';
}
