// How full a directory is: the file system and, on tmpfs, the memory behind it.
import type { StatsFs } from 'node:fs';
import fs from 'node:fs/promises';
import { encodePath } from '../model/path.ts';
import { cgroupMemory } from './cgroup.ts';

/** statfs(2), f_type. */
const TMPFS_MAGIC = 0x01021994;

export interface DiskUse {
  /** `space`: bytes of the file system; `files`: its inodes; `memory`: on tmpfs, bytes of memory. */
  readonly of: 'space' | 'files' | 'memory';
  readonly used: number;
  /** 0 if there is none. */
  readonly limit: number;
}

/** The use of the file system of this directory and, on tmpfs, of the memory of our fullest cgroup. */
export async function diskUseOf(dir: string): Promise<readonly DiskUse[]> {
  return diskUseFrom(await fs.statfs(encodePath(dir)));
}

export function diskUseFrom({ type, blocks, bfree, bsize, files, ffree }: StatsFs): readonly DiskUse[] {
  const memory = type === TMPFS_MAGIC ? cgroupMemory() : undefined;
  return [
    { of: 'space', used: (blocks - bfree) * bsize, limit: blocks * bsize },
    { of: 'files', used: files - ffree, limit: files },
    ...(memory === undefined ? [] : [{ of: 'memory' as const, ...memory }]),
  ];
}

/** Bytes that may still be written into this directory; Infinity if unknown. */
export async function freeBytesIn(dir: string): Promise<number> {
  const stat = await fs.statfs(encodePath(dir));
  const free = diskUseFrom(stat)
    .filter(({ of, limit }) => of !== 'files' && limit > 0)
    .map(({ used, limit }) => Math.max(0, limit - used));
  // A part may be reserved for root. A tmpfs without a limit, and some FUSE file systems, have no blocks at all.
  return Math.min(stat.blocks === 0 ? Infinity : stat.bavail * stat.bsize, ...free);
}
