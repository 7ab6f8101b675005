// One walk over the whole tree beside inotify. Each directory gets its watch before it is read, so that what
// is made meanwhile causes an event; at the end the watches of directories that are gone are given back.
import type { EventQueue } from './event-queue.ts';
import type { KernelEvents } from './kernel-events.ts';
import type { PassKind } from './passes.ts';
import { findInTurns, listTreeInTurns, lookAt, type FoundFile, type LookOn } from './scan.ts';
import type { Seen } from './seen.ts';

export interface RescanParts {
  readonly kernel: KernelEvents;
  readonly eventQueue: EventQueue;
  /** After each piece. */
  readonly deliver: () => void;
  readonly seen: Seen | undefined;
  readonly lookOn: LookOn;
}

/** Tells all declared files as `scan`, or only those that {@link Seen} does not know in this state. */
export async function rescan(kind: PassKind, parts: RescanParts, signal: AbortSignal): Promise<void> {
  parts.kernel.beginPass();
  if (kind === 'new' && parts.seen !== undefined) await tellNew(parts, parts.seen, signal);
  else await tellAll(parts, signal);
  parts.kernel.endPass();
}

async function tellAll({ kernel, eventQueue, deliver }: RescanParts, signal: AbortSignal): Promise<void> {
  for await (const paths of listTreeInTurns(kernel.walk, signal)) {
    for (const path of paths) eventQueue.add(path, 'scan', 'unknown');
    deliver();
  }
}

async function tellNew(
  { kernel, eventQueue, deliver, lookOn }: RescanParts,
  seen: Seen,
  signal: AbortSignal,
): Promise<void> {
  // Looked at once more: its event may have been told since the pool looked, and then this is old news.
  const isNewNow = ({ path, facts }: FoundFile): boolean => {
    if (!seen.isNew(path, facts)) return false;
    const now = lookAt(kernel.walk.root, path);
    return now !== undefined && seen.isNew(path, now.facts);
  };
  for await (const files of findInTurns(kernel.walk, lookOn, signal)) {
    for (const file of files) if (isNewNow(file)) eventQueue.add(file.path, 'scan', 'unknown');
    deliver();
  }
  seen.forgetGone();
}
