// The last step inside the watcher: events wait here in the kernel's order until all that was read has been
// understood. Only deliver() runs foreign code, so that a drain from inside a callback goes on with the next
// event instead of overtaking it.
import type { ClosedEvent, ClosedHow } from '../core/events.ts';
import type { RelPath } from '../core/path.ts';

export interface Outbox {
  add(path: RelPath, how: ClosedHow): void;
  /** Hands out everything that waits. When the receiver throws, the rest goes with the next call. */
  deliver(): void;
}

export function openOutbox(onClosed: (event: ClosedEvent) => void): Outbox {
  let waiting: ClosedEvent[] = [];
  let next = 0;
  return {
    add: (path, how) => {
      waiting.push({ path, how, atMs: Date.now() });
    },
    deliver: () => {
      for (let event = waiting[next]; event !== undefined; event = waiting[next]) {
        next += 1;
        onClosed(event);
      }
      waiting = [];
      next = 0;
    },
  };
}
