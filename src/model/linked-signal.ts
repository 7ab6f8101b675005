// One signal made of several, for a piece of work: linked when it begins and unlinked when it ends, so that the
// signal of a whole run keeps nothing of each of its 200,000 pushes. (AbortSignal.any does: 1.2 KB, Node 20.)
import { setMaxListeners } from 'node:events';

export interface LinkedSignal {
  /** Aborts with the first of them, and with its reason. */
  readonly signal: AbortSignal;
  /** Listens no longer. */
  unlink(): void;
}

/** Whoever links must unlink. Signals that are undefined never abort. */
export function linkSignals(...signals: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const linked = new AbortController();
  const stops: (() => void)[] = [];
  const unlink = (): void => {
    for (const stop of stops.splice(0)) stop();
  };
  for (const signal of signals) {
    if (signal === undefined) continue;
    const abort = (): void => {
      linked.abort(signal.reason);
      unlink();
    };
    if (signal.aborted) {
      abort();
      break;
    }
    // Many pieces of work may listen at once: that is no leak.
    setMaxListeners(0, signal);
    signal.addEventListener('abort', abort);
    stops.push(() => signal.removeEventListener('abort', abort));
  }
  return { signal: linked.signal, unlink };
}

/** Runs `act` with a signal that is linked for as long as that takes. */
export async function whileLinked<T>(
  signals: readonly (AbortSignal | undefined)[],
  act: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, unlink } = linkSignals(...signals);
  try {
    return await act(signal);
  } finally {
    unlink();
  }
}
