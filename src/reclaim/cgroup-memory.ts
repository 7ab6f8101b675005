// How much memory our cgroups still let us use: files on tmpfs are charged to it, whatever the file system's own
// size. Asked when a work directory is looked at, never on a timer.
import fs from 'node:fs/promises';
import path from 'node:path';

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
