// Makes the launcher the parent of every process that the task leaves behind, and takes their exit statuses, so that no
// zombie stays. It never touches what we started ourselves: whoever started it takes its status.
import { reapChild } from '../native/ended.ts';
import { becomeSubreaper, childPids, descendants } from '../native/processes.ts';

export interface Orphans {
  /** Every living process of the task: all that descend from us, but the sidecar and what was there before. */
  members(sidecarPid: number | undefined): readonly number[];
  /** Resolves after the next child of ours has ended, or after `ms`. */
  change(ms: number): Promise<void>;
  close(): void;
}

/**
 * To be called before anything is started. `ownChildren` are the running children that we started ourselves; whoever
 * starts one adds it in the same turn of the event loop.
 */
export function adoptOrphans(ownChildren: ReadonlySet<number>): Orphans {
  // A shell that starts something in the background and then becomes capture leaves it as our child.
  const before = childPids();
  becomeSubreaper();
  const waiting = new Set<() => void>();
  const reap = (): void => {
    for (const pid of childPids()) if (!ownChildren.has(pid)) reapChild(pid);
    for (const wake of waiting) wake();
  };
  process.on('SIGCHLD', reap);
  return {
    members: (sidecarPid) => descendants(process.pid, new Set([...before, sidecarPid ?? 0])),
    change: (ms) =>
      new Promise((resolve) => {
        const wake = (): void => {
          clearTimeout(timer);
          waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, ms);
        waiting.add(wake);
      }),
    close: () => {
      process.removeListener('SIGCHLD', reap);
      for (const wake of waiting) wake();
    },
  };
}
