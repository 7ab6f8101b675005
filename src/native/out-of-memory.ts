// Whether the kernel has killed processes for lack of memory while the task ran, as its cgroups count them (cgroups(7)).
// The task's exit status often does not tell: a shell, or a pool of workers, outlives the process that was killed.
import path from 'node:path';
import type { OutOfMemory } from '../model/format/out-of-memory.ts';
import { memoryCgroups, memoryLimit, textOf } from './cgroup.ts';
import { readStat } from './processes.ts';

/** v1 does not say which limit was reached: one whose cgroup has used this share of it may have been. */
const NEAR_LIMIT = 0.9;

/** Counted since the cgroup was made. */
interface Counts {
  /** Undefined: the whole machine. */
  readonly dir: string | undefined;
  /** Killed processes of this cgroup; v2: and of those below it. It does not matter whose limit was reached. */
  readonly kills: number;
  /** v2: how often its own limit, or one below it, was reached. 0 for v1. */
  readonly reached: number;
}

export interface KillCounts {
  /** The outermost cgroup first, our own last. Only the machine if no cgroup counts. */
  readonly counts: readonly Counts[];
  /** Processes that are neither ours nor above us are in our own cgroup, too. */
  readonly isShared: boolean;
}

/** What the kernel has killed so far, in the cgroups of this process. */
export function countKills(): KillCounts {
  const { dirs, names } = memoryCgroups();
  const counts = dirs.flatMap((dir): readonly Counts[] => {
    const text = textOf(path.join(dir, names.kills)) ?? '';
    const kills = lineOf(text, 'oom_kill');
    return kills === undefined ? [] : [{ dir, kills, reached: lineOf(text, 'oom') ?? 0 }];
  });
  const own = counts.at(-1)?.dir;
  if (own !== undefined) return { counts, isShared: hasOthers(own) };
  // The root of v2 has no count of its own.
  const kills = lineOf(textOf('/proc/vmstat') ?? '', 'oom_kill') ?? 0;
  return { counts: [{ dir: undefined, kills, reached: 0 }], isShared: true };
}

/**
 * What the kernel has killed since `before`; undefined: nothing. If our own cgroup has lost no process, the innermost
 * cgroup with a limit may have: the task's processes may be in another one below that (`srun`, a pod).
 *
 * @param hasLostOthers a process that is not the task's has died meanwhile, and may be one of them.
 */
export function killsSince(before: KillCounts, hasLostOthers: boolean): OutOfMemory | undefined {
  const after = countKills();
  const { isLegacy, names } = memoryCgroups();
  const risen = after.counts.map(({ dir, kills, reached }) => {
    const then = before.counts.find((one) => one.dir === dir);
    const limit = dir === undefined ? undefined : memoryLimit(dir, names);
    return { dir, limit, kills: kills - (then?.kills ?? 0), reached: reached - (then?.reached ?? 0) };
  });
  const own = risen.at(-1);
  const above = isLegacy ? undefined : risen.findLast(({ limit }) => limit !== undefined);
  const isOwn = (own?.kills ?? 0) > 0;
  const kills = (isOwn ? own : above)?.kills ?? 0;
  if (kills <= 0) return undefined;
  const peakOf = (dir = ''): number => Number(textOf(path.join(dir, names.peak)) ?? Number.NaN);
  const full = risen.findLast(
    ({ dir, limit, reached }) =>
      limit !== undefined && (isLegacy ? peakOf(dir) >= limit * NEAR_LIMIT : reached > 0),
  );
  const peak = peakOf(full?.dir);
  return {
    kills,
    limitBytes: full?.limit,
    peakMemoryBytes: full !== undefined && Number.isFinite(peak) ? peak : undefined,
    shared: before.isShared || after.isShared || !isOwn || hasLostOthers ? true : undefined,
  };
}

function lineOf(text: string, name: string): number | undefined {
  const count = new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1];
  return count === undefined ? undefined : Number(count);
}

/** Whether a process is in the cgroup that neither descends from this one, nor is one of its ancestors. */
function hasOthers(dir: string): boolean {
  const pids = (textOf(path.join(dir, 'cgroup.procs')) ?? '').split('\n').filter((line) => line !== '');
  const above = new Set(ancestors(process.pid));
  return pids.map(Number).some((pid) => {
    if (pid === process.pid || above.has(pid)) return false;
    // The kernel shows processes of another PID namespace as 0.
    if (pid === 0) return true;
    return readStat(pid) !== undefined && !ancestors(pid).includes(process.pid);
  });
}

function ancestors(pid: number): readonly number[] {
  const found: number[] = [];
  for (let at = readStat(pid)?.parent ?? 0; at > 0; at = readStat(at)?.parent ?? 0) found.push(at);
  return found;
}
