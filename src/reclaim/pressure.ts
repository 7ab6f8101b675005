// Is the work directory short of space or memory? One look for each call; sidecar/disk decides when.
import fs from 'node:fs/promises';
import { diskUseFrom } from '../native/disk-use.ts';

/** Above this share of any limit, pressure is `high`. */
export const HIGH_USE = 0.8;
/** Above this share, pressure is `near`. */
const NEAR_USE = 0.5;
/** Reclaiming is worthwhile if it frees at least this share of the use. */
const WORTHWHILE = 0.1;
/** statfs(2), f_type. */
const OVERLAYFS_MAGIC = 0x794c7630;

/** `near`: not `high` yet, but more than half is in use. */
export type Pressure = 'none' | 'near' | 'high';

/**
 * `high` if more than 80 % of the file system's bytes, of its inodes, or (on tmpfs) of a cgroup's memory is used, and
 * the reclaimable files are at least 10 % of that use. Never on overlayfs: deleting there frees nothing below.
 */
export async function pressureOn(
  dir: string,
  reclaimableBytes: number,
  reclaimableFiles: number,
): Promise<Pressure> {
  const stat = await fs.statfs(dir);
  if (stat.type === OVERLAYFS_MAGIC) return 'none';
  const shares = diskUseFrom(stat).map(({ of, used, limit }) => {
    const reclaimable = of === 'files' ? reclaimableFiles : reclaimableBytes;
    return limit > 0 && reclaimable >= used * WORTHWHILE ? used / limit : 0;
  });
  const share = Math.max(...shares);
  return share > HIGH_USE ? 'high' : share > NEAR_USE ? 'near' : 'none';
}
