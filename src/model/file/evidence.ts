// Who closed a file: the task, or the kernel for a process that died? Pure: compares two looks at the task's
// processes. A close that a dying process may have made is never called clean.

/**
 * `clean`: no process of the task died since the previous look, so the closing process is alive. `doubtful`: a process
 * died, and the kernel may have made the close for it. `unknown`: the task's processes are not visible, or the close
 * itself was not seen.
 */
export type Evidence = 'clean' | 'doubtful' | 'unknown';

/** One process in a look (proc_pid_stat(5)). */
export interface ProcessSeen {
  /** Its start time, in clock ticks since boot. A pid is reused, a pid with its start time is not. */
  readonly startTicks: number;
  /**
   * `exiting`: it is closing its files, or will soon. `dead`: it has closed them, and its parent has not reaped it
   * yet.
   */
  readonly life: 'alive' | 'exiting' | 'dead';
  /**
   * Minor faults of the children that it has waited for (cminflt). If the number has grown, another child has ended.
   */
  readonly reaped: number;
}

/** The task's processes by pid, and the processes that reap them. */
export interface ProcessTable {
  readonly processes: ReadonlyMap<number, ProcessSeen>;
  /** Some of them are not visible, or may end without a trace. */
  readonly isBlind: boolean;
  /** A daemon may start some of them. A look finds these, but not those that start and end between two looks. */
  readonly isRemote: boolean;
}

/** Before the first look. */
export const NO_PROCESSES: ProcessTable = { processes: new Map(), isBlind: false, isRemote: false };

/**
 * Judges the closes that were queued between two looks.
 *
 * Let X be a process whose death closed a file, and let that event be read before the second look began. X had
 * PF_EXITING set before the event was queued. Then the second look finds one of these:
 * - X was known as alive or exiting: it is now exiting, dead, or gone.
 * - X started after the first look, and nobody has reaped it: it is among the children of a process that is looked at.
 * - X started after the first look, and its parent has reaped it: the parent's count has grown, or is not 0 if the
 *   parent is new. If the parent is gone too, the same holds for the parent. The last parent in this line is the
 *   launcher, which adopts orphans.
 */
export function evidenceOf(before: ProcessTable, now: ProcessTable): Evidence {
  for (const [pid, seen] of before.processes)
    if (seen.life !== 'dead' && hasDied(seen, now.processes.get(pid))) return 'doubtful';
  for (const [pid, seen] of now.processes)
    if (isNew(seen, before.processes.get(pid)) && (seen.life !== 'alive' || seen.reaped > 0))
      return 'doubtful';
  return now.isBlind ? 'unknown' : 'clean';
}

/**
 * True if any process started, ended, or reaped a child between two looks. A process that is exiting will end soon.
 */
export function hasChanged(before: ProcessTable, now: ProcessTable): boolean {
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

function hasDied(before: ProcessSeen, now: ProcessSeen | undefined): boolean {
  if (now === undefined || isNew(now, before)) return true;
  return now.life !== 'alive' || now.reaped !== before.reaped;
}

function isNew(now: ProcessSeen, before: ProcessSeen | undefined): boolean {
  return before?.startTicks !== now.startTicks;
}
