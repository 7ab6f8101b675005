// Does the work directory run short of space or memory? Asked after something became reclaimable, never
// on a timer.
import type { StatsFs } from 'node:fs';
import fs from 'node:fs/promises';

/** Above this share of any limit there is pressure. */
const HIGH_USE = 0.8;
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

/** Of the file system of this directory, and on tmpfs of our cgroup's memory where that is limited. */
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
 * `high` when file system bytes, inodes or (on tmpfs) the memory of the cgroup are used above 80 %, and what
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

/** Memory of our own cgroup: v2 memory.current and memory.max, else v1; undefined without a limit. */
async function cgroupMemory(): Promise<{ used: number; limit: number } | undefined> {
  try {
    const lines = (await fs.readFile('/proc/self/cgroup', 'utf8')).trim().split('\n');
    const unified = lines.find((line) => line.startsWith('0::'))?.slice('0::'.length);
    const legacy = lines.find((line) => /^\d+:[^:]*\bmemory\b[^:]*:/.test(line))?.split(':')[2];
    const [used, limit] =
      legacy === undefined
        ? [`/sys/fs/cgroup${unified}/memory.current`, `/sys/fs/cgroup${unified}/memory.max`]
        : [
            `/sys/fs/cgroup/memory${legacy}/memory.usage_in_bytes`,
            `/sys/fs/cgroup/memory${legacy}/memory.limit_in_bytes`,
          ];
    const [usedBytes, limitBytes] = await Promise.all([readNumber(used), readNumber(limit)]);
    // v1 says "no limit" with a number near 2^63, v2 with the word max.
    return Number.isFinite(limitBytes) && limitBytes < 2 ** 60
      ? { used: usedBytes, limit: limitBytes }
      : undefined;
  } catch {
    return undefined; // no cgroup file system here: nothing limits us that could be read
  }
}

async function readNumber(path: string): Promise<number> {
  return Number((await fs.readFile(path, 'utf8')).trim());
}
