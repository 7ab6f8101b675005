// Does the work directory run short of space or memory? Asked after something became reclaimable, never
// on a timer.
import fs from 'node:fs/promises';

/** Above this share of any limit there is pressure. */
const HIGH_USE = 0.8;
/** Reclaiming is worth it when it frees at least this share of the use. */
const WORTHWHILE = 0.1;
/** statfs(2), f_type. */
const TMPFS_MAGIC = 0x01021994;
const OVERLAYFS_MAGIC = 0x794c7630;

interface Use {
  readonly used: number;
  readonly limit: number;
  readonly reclaimable: number;
}

/**
 * True when file system bytes, inodes or (on tmpfs) the memory of the cgroup are used above 80 %, and what
 * could be reclaimed is at least 10 % of that use. Never on overlayfs: a deletion there frees nothing below.
 */
export async function underPressure(
  dir: string,
  reclaimableBytes: number,
  reclaimableFiles: number,
): Promise<boolean> {
  const stat = await fs.statfs(dir);
  if (stat.type === OVERLAYFS_MAGIC) return false;
  const uses: Use[] = [
    {
      used: (stat.blocks - stat.bfree) * stat.bsize,
      limit: stat.blocks * stat.bsize,
      reclaimable: reclaimableBytes,
    },
    { used: stat.files - stat.ffree, limit: stat.files, reclaimable: reclaimableFiles },
  ];
  if (stat.type === TMPFS_MAGIC) {
    const memory = await cgroupMemory();
    if (memory !== undefined) uses.push({ ...memory, reclaimable: reclaimableBytes });
  }
  return uses.some(({ used, limit, reclaimable }) => {
    return limit > 0 && used / limit > HIGH_USE && reclaimable >= used * WORTHWHILE;
  });
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
