// Receives the launcher's signals and finds out which of them the task has already: the sidecar stands where
// the task stands and reports what it saw. Decides nothing about the task.
import { BROADCAST_WINDOW_MS, JOB_SIGNALS, SIGHTING_LIFE_MS } from '../model/relay.ts';
import type { JobSignal } from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';

/** Listens for every job signal; one that the caller ignored (`nohup`) stays without effect. */
export function listenForSignals(
  ignored: ReadonlySet<string>,
  received: (signal: JobSignal) => void,
): { close(): void } {
  const listeners = JOB_SIGNALS.map((signal) => {
    const listener = ignored.has(signal) ? () => undefined : () => received(signal);
    process.on(signal, listener);
    return { signal, listener };
  });
  return {
    close: () => {
      for (const { signal, listener } of listeners) process.removeListener(signal, listener);
    },
  };
}

/** Pairs what the launcher received with what the sidecar saw; each report answers for one delivery. */
export interface Broadcasts {
  /** The sidecar received this signal. */
  seen(signal: string): void;
  /** Resolves to true as soon as the sidecar has reported this signal, to false when the window ends without. */
  covers(signal: JobSignal): Promise<boolean>;
  /** Answers false to everything that still waits. */
  close(): void;
}

interface Waiting {
  readonly signal: JobSignal;
  answer(broadcast: boolean): void;
}

export function createBroadcasts(): Broadcasts {
  const waiting = new Set<Waiting>();
  let sightings: { readonly signal: string; readonly atMs: number }[] = [];
  const takeSighting = (signal: JobSignal): boolean => {
    const earliestMs = clockMs() - SIGHTING_LIFE_MS;
    sightings = sightings.filter((sighting) => sighting.atMs >= earliestMs);
    const at = sightings.findIndex((sighting) => sighting.signal === signal);
    if (at >= 0) sightings.splice(at, 1);
    return at >= 0;
  };
  return {
    seen: (signal) => {
      const first = [...waiting].find((entry) => entry.signal === signal);
      if (first === undefined) sightings.push({ signal, atMs: clockMs() });
      else first.answer(true);
    },
    covers: (signal) =>
      new Promise((resolve) => {
        if (takeSighting(signal)) return resolve(true);
        const entry: Waiting = {
          signal,
          answer: (broadcast) => {
            clearTimeout(timer);
            waiting.delete(entry);
            resolve(broadcast);
          },
        };
        const timer = setTimeout(() => entry.answer(false), BROADCAST_WINDOW_MS);
        waiting.add(entry);
      }),
    close: () => {
      for (const entry of waiting) entry.answer(false);
    },
  };
}
