// Receives the launcher's signals, and finds out which of them the task has already: the sidecar stands where
// the task stands, and reports what it saw. It decides nothing about the task.
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

interface Waiting {
  readonly signal: JobSignal;
  answer(broadcast: boolean): void;
}

/** Pairs what the launcher received with what the sidecar saw; each report answers for one delivery. */
export class Broadcasts {
  readonly #waiting = new Set<Waiting>();
  #sightings: readonly { readonly signal: string; readonly atMs: number }[] = [];

  /** The sidecar received this signal. */
  seen(signal: string): void {
    const first = [...this.#waiting].find((entry) => entry.signal === signal);
    if (first === undefined) this.#sightings = [...this.#sightings, { signal, atMs: clockMs() }];
    else first.answer(true);
  }

  /** Resolves to true as soon as the sidecar has reported this signal, to false if the window ends without a report. */
  covers(signal: JobSignal): Promise<boolean> {
    return new Promise((resolve) => {
      if (this.#takeSighting(signal)) return resolve(true);
      const entry: Waiting = {
        signal,
        answer: (broadcast) => {
          clearTimeout(timer);
          this.#waiting.delete(entry);
          resolve(broadcast);
        },
      };
      const timer = setTimeout(() => entry.answer(false), BROADCAST_WINDOW_MS);
      this.#waiting.add(entry);
    });
  }

  /** Answers false to everything that still waits. */
  close(): void {
    for (const entry of this.#waiting) entry.answer(false);
  }

  #takeSighting(signal: JobSignal): boolean {
    const earliestMs = clockMs() - SIGHTING_LIFE_MS;
    const sightings = this.#sightings.filter(({ atMs }) => atMs >= earliestMs);
    const at = sightings.findIndex((sighting) => sighting.signal === signal);
    this.#sightings = at < 0 ? sightings : sightings.toSpliced(at, 1);
    return at >= 0;
  }
}
