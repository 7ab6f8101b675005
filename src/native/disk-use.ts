// How full a directory is: the file system and, on tmpfs, the memory behind it.
import type { StatsFs } from 'node:fs';
import fs from 'node:fs/promises';
import { encodePath } from '../model/path.ts';
import { cgroupMemory } from './cgroup.ts';
import { fileSystemType } from './network-files.ts';

/** statfs(2), f_type. */
const TMPFS_MAGIC = 0x01021994;

export interface DiskUse {
  /** `space`: bytes of the file system; `files`: its inodes; `memory`: on tmpfs, bytes of memory. */
  readonly of: 'space' | 'files' | 'memory';
  readonly used: number;
  /** 0 if there is none. */
  readonly limit: number;
}

/** Whether the directory is on tmpfs: its files take memory. */
export function isInMemory(dir: string): boolean {
  return fileSystemType(dir) === TMPFS_MAGIC;
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

const MIB = 2 ** 20;
/** capture's own files in the work directory are removed when the task ends, and leave so much. */
const FEW_FILES = 8;

/** What is left of a file system that is full. */
export interface Full {
  readonly of: 'space' | 'files';
  readonly freeBytes: number;
}

/**
 * Undefined unless a program that writes there fails for lack of room. A program writes whole blocks, so it may leave
 * some room: less than 1 MiB, or than 16 MiB and 1 % of a large file system.
 */
export function fullness({ blocks, bfree, bavail, bsize, files, ffree }: StatsFs): Full | undefined {
  // A part may be reserved for root.
  const freeBytes = (process.geteuid?.() === 0 ? bfree : bavail) * bsize;
  const least = Math.max(MIB, Math.min(16 * MIB, (blocks * bsize) / 100));
  // A tmpfs without a limit, and some FUSE file systems, have no blocks at all; others count no files.
  if (blocks > 0 && freeBytes < least) return { of: 'space', freeBytes };
  return files > 0 && ffree < FEW_FILES ? { of: 'files', freeBytes } : undefined;
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
