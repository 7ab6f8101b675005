// Memory and cores: what the cgroups of this process allow, and how much is in use. Versions 1 and 2 (cgroups(7)).
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf } from '../model/errors.ts';

const MEMBERSHIP = '/proc/self/cgroup';
const MOUNT = '/sys/fs/cgroup';

/** Names of the files in a memory cgroup. */
export interface MemoryFiles {
  readonly used: string;
  readonly limit: string;
  /** The highest use since the cgroup was made or, as root may, reset. Version 2 has it from Linux 5.19 on. */
  readonly peak: string;
  /** Has a line `oom_kill <count>`: processes that the kernel has killed for lack of memory. */
  readonly kills: string;
  /** A field of memory.stat: for the cgroup and all below it. */
  readonly inactiveFile: string;
}

const V1: MemoryFiles = {
  used: 'memory.usage_in_bytes',
  limit: 'memory.limit_in_bytes',
  peak: 'memory.max_usage_in_bytes',
  kills: 'memory.oom_control',
  inactiveFile: 'total_inactive_file',
};
const V2: MemoryFiles = {
  used: 'memory.current',
  limit: 'memory.max',
  peak: 'memory.peak',
  kills: 'memory.events',
  inactiveFile: 'inactive_file',
};

/** The memory cgroups of this process, the outermost first; none if the kernel has none. */
export interface MemoryCgroups {
  readonly dirs: readonly string[];
  readonly isLegacy: boolean;
  readonly names: MemoryFiles;
}

export function memoryCgroups(): MemoryCgroups {
  const found = cgroupsOf('memory');
  return { ...found, names: found.isLegacy ? V1 : V2 };
}

export interface MemoryUse {
  readonly used: number;
  readonly limit: number;
}

/**
 * Use and limit, in bytes, of the fullest cgroup: our own or one above it (a pod's, a job's). Each of them can kill us.
 * Page cache that the kernel would drop first counts as free, as in the working set of Kubernetes. Undefined if no limit
 * can be read.
 */
export function cgroupMemory(): MemoryUse | undefined {
  const { dirs, names } = memoryCgroups();
  return dirs
    .flatMap((dir) => useOf(dir, names) ?? [])
    .toSorted((a, b) => a.used / a.limit - b.used / b.limit)
    .at(-1);
}

/** CPU time that our cgroups allow, in cores, such as 1.5; Infinity without a limit. */
export function cgroupCores(): number {
  const { dirs, isLegacy } = cgroupsOf('cpu');
  return Math.min(...dirs.map((dir) => coresOf(dir, isLegacy)));
}

/**
 * Percentage of the last ten seconds in which all threads that had work waited for memory: in our cgroup or, if it does
 * not say, on the whole machine (https://docs.kernel.org/accounting/psi.html). Undefined if neither says.
 */
export function memoryPressure(): number | undefined {
  const { dirs, isLegacy } = cgroupsOf('memory');
  const own = isLegacy ? undefined : dirs.at(-1);
  const text =
    (own === undefined ? undefined : textOf(path.join(own, 'memory.pressure'))) ??
    textOf('/proc/pressure/memory');
  const percent = /^full avg10=([\d.]+)/m.exec(text ?? '')?.[1];
  return percent === undefined ? undefined : Number(percent);
}

/** The directories of our cgroups, the outermost first; none if the kernel has no cgroups. */
function cgroupsOf(controller: 'memory' | 'cpu'): {
  readonly dirs: readonly string[];
  readonly isLegacy: boolean;
} {
  const lines = (textOf(MEMBERSHIP) ?? '').trim().split('\n');
  const legacy = lines.find((line) => line.split(':')[1]?.split(',').includes(controller));
  const unified = lines.find((line) => line.startsWith('0::'));
  const own = (legacy ?? unified)?.split(':').slice(2).join(':');
  const isLegacy = legacy !== undefined;
  if (own === undefined) return { dirs: [], isLegacy };
  const root = isLegacy ? `${MOUNT}/${controller}` : MOUNT;
  return { dirs: upwards(own).map((dir) => path.join(root, dir)), isLegacy };
}

/** Version 2 has one file, `max 100000` or `150000 100000`. Version 1 has two files, and -1 for no limit. */
function coresOf(dir: string, isLegacy: boolean): number {
  const names = isLegacy ? ['cpu.cfs_quota_us', 'cpu.cfs_period_us'] : ['cpu.max'];
  const words = names.flatMap((name) => (textOf(path.join(dir, name)) ?? '').trim().split(' '));
  const [quotaUs, periodUs] = [Number(words[0]), Number(words[1])];
  return quotaUs > 0 && periodUs > 0 ? quotaUs / periodUs : Infinity;
}

/**
 * A cgroup and all above it. In a container the mount's root may be our own cgroup, and nothing of the path exist below
 * it.
 */
function upwards(own: string): readonly string[] {
  const dirs = ['/'];
  // A cgroup namespace shows what is outside of it as `/..`.
  for (const name of own.split('/').filter((part) => part !== '' && part !== '..'))
    dirs.push(path.join(dirs.at(-1) ?? '/', name));
  return dirs;
}

/** Undefined if there is no limit, or it cannot be read. */
function useOf(dir: string, names: MemoryFiles): MemoryUse | undefined {
  const limit = memoryLimit(dir, names);
  if (limit === undefined) return undefined;
  const used = Number(textOf(path.join(dir, names.used)));
  const stat = textOf(path.join(dir, 'memory.stat')) ?? '';
  const inactive = Number(new RegExp(`^${names.inactiveFile} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
  return Number.isFinite(used) ? { used: Math.max(0, used - inactive), limit } : undefined;
}

/** In bytes; undefined if there is none, or it cannot be read. */
export function memoryLimit(dir: string, { limit: name }: MemoryFiles): number | undefined {
  const limit = Number(textOf(path.join(dir, name)));
  // v1 says "no limit" with a number near 2^63, v2 with the word max.
  return limit > 0 && limit < 2 ** 60 ? limit : undefined;
}

/** Undefined if it cannot be read. */
export function textOf(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}
