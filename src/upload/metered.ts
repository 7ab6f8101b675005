// Reports to the link rate (--compression zstd:auto) how the parts of one body are sent. It sits between reading and
// store, and changes nothing that passes.
import type { LinkRate } from '../model/link-rate.ts';
import { clockMs } from '../native/clock.ts';

export interface Metered {
  readonly parts: AsyncIterable<Uint8Array>;
  /** The store has acknowledged one more part, of this many bytes. */
  sent(bytes: number): void;
  /** Nothing more is sent or acknowledged. */
  close(): void;
}

export function metered(link: LinkRate, parts: AsyncIterable<Uint8Array>): Metered {
  let underWay = 0;
  link.bodyStarted();
  return {
    parts: reporting(parts, (waitedMs) => {
      underWay += 1;
      link.partTaken(waitedMs, clockMs());
    }),
    sent: (bytes) => {
      underWay -= 1;
      link.partAcknowledged(bytes, clockMs());
    },
    close: () => link.bodyEnded(underWay, clockMs()),
  };
}

/** Not a generator: its `return()` would wait for the part that was requested last. */
function reporting(
  parts: AsyncIterable<Uint8Array>,
  given: (waitedMs: number) => void,
): AsyncIterableIterator<Uint8Array> {
  const source = parts[Symbol.asyncIterator]();
  const iterator: AsyncIterableIterator<Uint8Array> = {
    [Symbol.asyncIterator]: () => iterator,
    next: async () => {
      const askedMs = clockMs();
      const step = await source.next();
      if (step.done !== true) given(clockMs() - askedMs);
      return step;
    },
    return: async () => {
      await source.return?.();
      return { done: true, value: undefined };
    },
  };
  return iterator;
}
