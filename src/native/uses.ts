// How much of what a directory needs is in use: of its file system, and on tmpfs of the memory behind it.
import type { StatsFs } from 'node:fs';
import fs from 'node:fs/promises';
import { encodePath } from '../model/path.ts';
import { cgroupMemory } from './cgroup.ts';

/** statfs(2), f_type. */
const TMPFS_MAGIC = 0x01021994;

export interface Use {
  /** Bytes of the file system, its inodes, or on tmpfs bytes of memory. */
  readonly of: 'space' | 'files' | 'memory';
  readonly used: number;
  /** 0 where there is none. */
  readonly limit: number;
}

/** Of the file system of this directory, and on tmpfs of the memory of the fullest cgroup that holds us. */
export async function usesOf(dir: string): Promise<readonly Use[]> {
  return readUses(await fs.statfs(encodePath(dir)));
}

export function readUses({ type, blocks, bfree, bsize, files, ffree }: StatsFs): readonly Use[] {
  const memory = type === TMPFS_MAGIC ? cgroupMemory() : undefined;
  return [
    { of: 'space', used: (blocks - bfree) * bsize, limit: blocks * bsize },
    { of: 'files', used: files - ffree, limit: files },
    ...(memory === undefined ? [] : [{ of: 'memory' as const, ...memory }]),
  ];
}

/** Bytes that may still be written into this directory; Infinity where nobody says. */
export async function freeBytesIn(dir: string): Promise<number> {
  const stat = await fs.statfs(encodePath(dir));
  const free = readUses(stat)
    .filter(({ of, limit }) => of !== 'files' && limit > 0)
    .map(({ used, limit }) => Math.max(0, limit - used));
  // A part may be kept for root; a tmpfs without a limit, and some FUSE file systems, have no blocks at all.
  return Math.min(stat.blocks === 0 ? Infinity : stat.bavail * stat.bsize, ...free);
}
