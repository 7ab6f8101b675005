// What the cgroups of this process allow and have in use, memory and cores, of version 1 and 2 (cgroups(7)).
import fs from 'node:fs';
import path from 'node:path';
import { errnoOf } from '../model/errors.ts';

/** Where the kernel shows cgroups. */
const MEMBERSHIP = '/proc/self/cgroup';
const MOUNT = '/sys/fs/cgroup';

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
export function cgroupMemory(): MemoryUse | undefined {
  const { dirs, isLegacy } = cgroupsOf('memory');
  return dirs
    .flatMap((dir) => useOf(dir, isLegacy ? V1 : V2) ?? [])
    .toSorted((a, b) => a.used / a.limit - b.used / b.limit)
    .at(-1);
}

/** How many cores' time the cgroups that hold us allow, such as 1.5; no end where none limits it. */
export function cgroupCores(): number {
  const { dirs, isLegacy } = cgroupsOf('cpu');
  return Math.min(...dirs.map((dir) => coresOf(dir, isLegacy)));
}

/**
 * In which share of the last ten seconds, in percent, all that could work in our cgroup waited for memory
 * (https://docs.kernel.org/accounting/psi.html). Of the whole machine where the cgroup does not tell; undefined where
 * nobody does.
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

/** The directories of the cgroups that hold us, the outermost first; none where the kernel has no such thing. */
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

/** `max 100000` or `150000 100000` of version 2; two files, and -1 for no limit, of version 1. */
function coresOf(dir: string, isLegacy: boolean): number {
  const names = isLegacy ? ['cpu.cfs_quota_us', 'cpu.cfs_period_us'] : ['cpu.max'];
  const words = names.flatMap((name) => (textOf(path.join(dir, name)) ?? '').trim().split(' '));
  const [quotaUs, periodUs] = [Number(words[0]), Number(words[1])];
  return quotaUs > 0 && periodUs > 0 ? quotaUs / periodUs : Infinity;
}

/** A cgroup and all above it. A container may see only the upper end of the path, at its mount's root. */
function upwards(own: string): readonly string[] {
  const dirs = ['/'];
  // `/..` is what a cgroup namespace shows of what lies outside of it.
  for (const name of own.split('/').filter((part) => part !== '' && part !== '..'))
    dirs.push(path.join(dirs.at(-1) ?? '/', name));
  return dirs;
}

/** Undefined where there is no limit, or none that is ours to read: it limits us in no way that could be seen. */
function useOf(dir: string, names: Names): MemoryUse | undefined {
  const limit = Number(textOf(path.join(dir, names.limit)));
  // v1 says "no limit" with a number near 2^63, v2 with the word max.
  if (!(limit > 0 && limit < 2 ** 60)) return undefined;
  const used = Number(textOf(path.join(dir, names.used)));
  const stat = textOf(path.join(dir, 'memory.stat')) ?? '';
  const inactive = Number(new RegExp(`^${names.inactiveFile} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
  return Number.isFinite(used) ? { used: Math.max(0, used - inactive), limit } : undefined;
}

function textOf(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}
