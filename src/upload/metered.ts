// Tells the rate of the link (--compression zstd:auto) how the parts of one body leave. Between the reading and the
// store; changes nothing of what passes.
import type { LinkRate } from '../model/link-rate.ts';
import { clockMs } from '../native/clock.ts';

export interface Metered {
  readonly parts: AsyncIterable<Uint8Array>;
  /** The store has so many bytes more: one part. */
  sent(bytes: number): void;
  /** Nothing more is sent or acknowledged. */
  close(): void;
}

export function metered(link: LinkRate, parts: AsyncIterable<Uint8Array>): Metered {
  let underWay = 0;
  link.begun();
  return {
    parts: told(parts, (waitedMs) => {
      underWay += 1;
      link.given(waitedMs, clockMs());
    }),
    sent: (bytes) => {
      underWay -= 1;
      link.sent(bytes, clockMs());
    },
    close: () => link.ended(underWay, clockMs()),
  };
}

/** No generator: that would keep a `return()` waiting for the part that was asked for last. */
function told(
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
