// The signals that stop a command without a task of its own: `capture watch`, a restore, commands that read an array.
// Process 1 of a container ignores every signal that it does not handle (pid_namespaces(7)), so all of these are
// handled from the start.
import os from 'node:os';
import { clockMs } from './clock.ts';

const STOPPING = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const;

export interface Stop {
  readonly signal: string;
  readonly number: number;
  /** Ms since the epoch. */
  readonly atMs: number;
}

export interface Stops {
  readonly first: Promise<Stop>;
  /** A second signal: the user is in a hurry. */
  readonly second: Promise<Stop>;
  /** Calls `listener` at each signal from now on, until the returned function is called. */
  onEach(listener: (stop: Stop) => void): () => void;
  /** From now on signals have no effect: the exit status is decided. */
  close(): void;
}

export function openStops(): Stops {
  const waiting: ((stop: Stop) => void)[] = [];
  const next = (): Promise<Stop> => new Promise((resolve) => waiting.push(resolve));
  const [first, second] = [next(), next()];
  const listeners = new Set<(stop: Stop) => void>();
  const onSignal = (signal: NodeJS.Signals): void => {
    const stop = { signal, number: os.constants.signals[signal], atMs: clockMs() };
    waiting.shift()?.(stop);
    for (const listener of listeners) listener(stop);
  };
  for (const signal of STOPPING) process.on(signal, onSignal);
  return {
    first,
    second,
    onEach: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => {
      for (const signal of STOPPING) {
        process.on(signal, () => undefined);
        process.off(signal, onSignal);
      }
    },
  };
}
