// The last step inside the watcher: events wait here in the kernel's order until all that was read has been
// understood. Only deliver() runs foreign code, so that a drain from inside a callback goes on with the next
// event instead of overtaking it.
import type { Evidence } from '../model/file/evidence.ts';
import type { ClosedEvent, ClosedHow } from '../model/file/file-state.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';

export interface EventQueue {
  /** Without `evidence`, {@link judge} gives it later. */
  add(path: RelPath, how: ClosedHow, evidence?: Evidence): void;
  /** True while something waits that has no evidence yet. */
  readonly isUnjudged: boolean;
  /** Gives this evidence to all that have none yet. */
  judge(evidence: Evidence): void;
  /** Hands out everything that waits. When the receiver throws, the rest goes with the next call. */
  deliver(): void;
}

export function openEventQueue(onClosed: (event: ClosedEvent) => void): EventQueue {
  let waiting: (Omit<ClosedEvent, 'evidence'> & { evidence?: Evidence | undefined })[] = [];
  let next = 0;
  /** All before this one have their evidence. */
  let unjudged = 0;
  return {
    add: (path, how, evidence) => {
      waiting.push({ path, how, atMs: clockMs(), evidence });
    },
    get isUnjudged() {
      while (unjudged < waiting.length && waiting[unjudged]?.evidence !== undefined) unjudged += 1;
      return unjudged < waiting.length;
    },
    judge: (evidence) => {
      for (const event of waiting.slice(unjudged)) event.evidence ??= evidence;
      unjudged = waiting.length;
    },
    deliver: () => {
      for (let event = waiting[next]; event !== undefined; event = waiting[next]) {
        next += 1;
        onClosed({ ...event, evidence: event.evidence ?? 'unknown' });
      }
      waiting = [];
      next = 0;
      unjudged = 0;
    },
  };
}
