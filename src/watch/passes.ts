// Walks over the whole tree, one at a time: after lost events, and again and again where events are not
// enough. A request that comes while a walk is under way makes one more, because the walk may have been past.
import { setTimeout } from 'node:timers/promises';

/** `all`: tell every file. `new`: tell those that are not as they were last seen. */
export type PassKind = 'all' | 'new';

export interface Passes {
  request(kind: PassKind): void;
  isRunning(): boolean;
  /** Requests a `new` pass each time this long after the last one ended. A second call changes nothing. */
  repeat(everyMs: number): void;
  /** Stops what runs, and waits until it has. */
  close(): Promise<void>;
}

export function openPasses(run: (kind: PassKind, signal: AbortSignal) => Promise<void>): Passes {
  const closing = new AbortController();
  const { signal } = closing;
  const requested = new Set<PassKind>();
  let running: Promise<void> | undefined;
  let repeating: Promise<void> | undefined;

  const runAll = async (): Promise<void> => {
    for (const kind of requested) {
      requested.delete(kind);
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      await unlessClosed(run(kind, signal), signal);
    }
    running = undefined;
  };
  const start = (kind: PassKind): Promise<void> => {
    if (!signal.aborted) requested.add(kind);
    // Not at once: what runs may ask for the next one before its first pause.
    running ??= Promise.resolve().then(runAll);
    return running;
  };
  const repeatForever = async (everyMs: number): Promise<void> => {
    while (!signal.aborted) {
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      await unlessClosed(setTimeout(everyMs, undefined, { signal }), signal);
      // oxlint-disable-next-line no-await-in-loop -- one at a time
      if (!signal.aborted) await start('new');
    }
  };
  return {
    request: (kind) => void start(kind),
    isRunning: () => running !== undefined,
    repeat: (everyMs) => void (repeating ??= repeatForever(everyMs)),
    close: async () => {
      closing.abort();
      await running;
      await repeating;
    },
  };
}

async function unlessClosed(work: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
