// Who closed a file: the task, or the kernel for a process that died? Pure: compares two looks at the task's
// processes. It must never call a close clean that a death may have made.

/**
 * `clean`: no process of the task died since the look before, so whoever closed it lives on. `doubtful`: one died,
 * and its death may have made the close. `unknown`: nobody can see the task's processes, or the close itself was not
 * seen.
 */
export type Evidence = 'clean' | 'doubtful' | 'unknown';

/** One process as a look found it (proc_pid_stat(5)). */
export interface Seen {
  /** When it started, in clock ticks since boot: a pid is used again, this is not. */
  readonly startTicks: number;
  /**
   * `exiting`: it closes its files, or soon will. `dead`: it has closed them, and its parent has not waited for it
   * yet.
   */
  readonly life: 'alive' | 'exiting' | 'dead';
  /** Minor faults of the children that it has waited for: if the number has grown, one more has ended. */
  readonly reaped: number;
}

/** The task's processes by pid, and those that wait for them. */
export interface Look {
  readonly processes: ReadonlyMap<number, Seen>;
  /** Some of them cannot be seen, or may end without a trace. */
  readonly isBlind: boolean;
  /** A daemon may start some of them: they are found by a look, and nothing tells of those that came and went. */
  readonly isRemote: boolean;
}

/** Before the first look. */
export const NOBODY: Look = { processes: new Map(), isBlind: false, isRemote: false };

/**
 * What the second of two looks says of the closes that were queued between them.
 *
 * Let X be a process whose death closed a file, and let that event be read before the second look began. X had its
 * PF_EXITING before the event was queued. Then the look finds one of these:
 * - X was known as alive or exiting: it is now exiting, or dead, or gone.
 * - X was born since, and nobody has waited for it: it stands among the children of a process that is looked at.
 * - X was born since, and its parent has waited for it: the parent's count has grown, or is not 0 if the parent is
 *   new. If the parent is gone too, the same holds for the parent; the last in this line is the launcher, which
 *   adopts orphans.
 */
export function evidenceOf(before: Look, now: Look): Evidence {
  for (const [pid, seen] of before.processes)
    if (seen.life !== 'dead' && hasDied(seen, now.processes.get(pid))) return 'doubtful';
  for (const [pid, seen] of now.processes)
    if (isNew(seen, before.processes.get(pid)) && (seen.life !== 'alive' || seen.reaped > 0))
      return 'doubtful';
  return now.isBlind ? 'unknown' : 'clean';
}

/** Was anybody born, or did anybody end, or wait for one that did, between two looks? Who is exiting will soon end. */
export function hasChanged(before: Look, now: Look): boolean {
  if (before.processes.size !== now.processes.size) return true;
  return [...now.processes].some(([pid, seen]) => {
    const known = before.processes.get(pid);
    return (
      isNew(seen, known) ||
      known?.life !== seen.life ||
      known.reaped !== seen.reaped ||
      seen.life === 'exiting'
    );
  });
}

function hasDied(before: Seen, now: Seen | undefined): boolean {
  if (now === undefined || isNew(now, before)) return true;
  return now.life !== 'alive' || now.reaped !== before.reaped;
}

function isNew(now: Seen, before: Seen | undefined): boolean {
  return before?.startTicks !== now.startTicks;
}
