// Does the work directory run short of space or memory? One look each time that somebody asks; when to look is
// sidecar/disk's.
import type { StatsFs } from 'node:fs';
import fs from 'node:fs/promises';
import { cgroupMemory } from '../native/cgroup.ts';

/** Above this share of any limit there is pressure. */
export const HIGH_USE = 0.8;
/** Above this one there may be soon. */
const NEAR_USE = 0.5;
/** Reclaiming is worth it when it frees at least this share of the use. */
const WORTHWHILE = 0.1;
/** statfs(2), f_type. */
const TMPFS_MAGIC = 0x01021994;
const OVERLAYFS_MAGIC = 0x794c7630;

/** How much of something that a work directory needs is in use. */
export interface Use {
  /** Bytes of the file system, its inodes, or on tmpfs bytes of memory. */
  readonly of: 'space' | 'files' | 'memory';
  readonly used: number;
  /** 0 where there is none. */
  readonly limit: number;
}

/** Of the file system of this directory, and on tmpfs of the memory of the fullest cgroup that holds us. */
export async function usesOf(dir: string): Promise<readonly Use[]> {
  return readUses(await fs.statfs(dir));
}

async function readUses(stat: StatsFs): Promise<readonly Use[]> {
  const { blocks, bfree, bsize, files, ffree } = stat;
  const memory = stat.type === TMPFS_MAGIC ? cgroupMemory() : undefined;
  return [
    { of: 'space', used: (blocks - bfree) * bsize, limit: blocks * bsize },
    { of: 'files', used: files - ffree, limit: files },
    ...(memory === undefined ? [] : [{ of: 'memory' as const, ...memory }]),
  ];
}

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
  const shares = (await readUses(stat)).map(({ of, used, limit }) => {
    const reclaimable = of === 'files' ? reclaimableFiles : reclaimableBytes;
    return limit > 0 && reclaimable >= used * WORTHWHILE ? used / limit : 0;
  });
  const share = Math.max(...shares);
  return share > HIGH_USE ? 'high' : share > NEAR_USE ? 'near' : 'none';
}
