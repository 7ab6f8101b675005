// Does the work directory run short of space or memory? One look each time that somebody asks; when to look is
// sidecar/disk's.
import type { StatsFs } from 'node:fs';
import fs from 'node:fs/promises';
import path from 'node:path';

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
  const memory = stat.type === TMPFS_MAGIC ? await cgroupMemory() : undefined;
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

/** Where the kernel shows cgroups (cgroups(7)); tests have trees of their own. */
export interface CgroupFiles {
  readonly membership: string;
  readonly mount: string;
}

const KERNEL: CgroupFiles = { membership: '/proc/self/cgroup', mount: '/sys/fs/cgroup' };

/** Names of the files of one memory cgroup. */
interface Names {
  readonly used: string;
  readonly limit: string;
  /** In memory.stat: of the cgroup and all below it. */
  readonly inactiveFile: string;
}

const V1: Names = {
  used: 'memory.usage_in_bytes',
  limit: 'memory.limit_in_bytes',
  inactiveFile: 'total_inactive_file',
};
const V2: Names = { used: 'memory.current', limit: 'memory.max', inactiveFile: 'inactive_file' };

export interface MemoryUse {
  readonly used: number;
  readonly limit: number;
}

/**
 * Use and limit, in bytes, of the fullest cgroup that holds us: our own or one above it (a pod's, a job's), for
 * each of them can kill. Page cache that the kernel would drop first counts as free, as in the working set of
 * Kubernetes. Undefined where no limit can be read.
 */
export async function cgroupMemory(files: CgroupFiles = KERNEL): Promise<MemoryUse | undefined> {
  const membership = await fs.readFile(files.membership, 'utf8').catch(() => '');
  const lines = membership.trim().split('\n');
  const legacy = lines.find((line) => /^\d+:[^:]*\bmemory\b[^:]*:/.test(line));
  const unified = lines.find((line) => line.startsWith('0::'));
  const own = (legacy ?? unified)?.split(':').slice(2).join(':');
  if (own === undefined) return undefined;
  const [mount, names] = legacy === undefined ? [files.mount, V2] : [`${files.mount}/memory`, V1];
  const uses = await Promise.all(upwards(own).map((dir) => useOf(path.join(mount, dir), names)));
  return uses
    .filter((use) => use !== undefined)
    .toSorted((a, b) => a.used / a.limit - b.used / b.limit)
    .at(-1);
}

/** A cgroup and all above it. A container may see only the upper end of the path, at its mount's root. */
function upwards(own: string): readonly string[] {
  const dirs = ['/'];
  // `/..` is what a cgroup namespace shows of what lies outside of it.
  for (const name of own.split('/').filter((part) => part !== '' && part !== '..'))
    dirs.push(path.join(dirs.at(-1) ?? '/', name));
  return dirs;
}

async function useOf(dir: string, names: Names): Promise<MemoryUse | undefined> {
  try {
    const limit = Number(await fs.readFile(path.join(dir, names.limit), 'utf8'));
    // v1 says "no limit" with a number near 2^63, v2 with the word max.
    if (!(limit > 0 && limit < 2 ** 60)) return undefined;
    const used = Number(await fs.readFile(path.join(dir, names.used), 'utf8'));
    const stat = await fs.readFile(path.join(dir, 'memory.stat'), 'utf8').catch(() => '');
    const inactive = Number(new RegExp(`^${names.inactiveFile} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
    return Number.isFinite(used) ? { used: Math.max(0, used - inactive), limit } : undefined;
  } catch {
    return undefined; // Not there, or not ours to read: it limits us in no way that could be seen.
  }
}
