// The bytes of an object on their way to the reader, together with what they hold open: a connection, a file.

/**
 * Chunks that give up what they hold at their end, at a `break`, and when `return()` is called on them unread
 * (a generator that never started would skip its own `finally`). `release` may be called twice.
 */
export function releasing(
  chunks: AsyncGenerator<Uint8Array>,
  release: () => Promise<void>,
): AsyncIterableIterator<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => chunks.next(),
    return: async () => {
      await chunks.return(undefined);
      await release();
      return { done: true, value: undefined };
    },
  };
}

/** A body that remembers its own failure: it is the caller's error, not the store's. */
export interface WatchedBody {
  readonly chunks: AsyncIterable<Uint8Array>;
  failure(): { readonly error: unknown } | undefined;
}

export function watched(body: AsyncIterable<Uint8Array>): WatchedBody {
  let failure: { readonly error: unknown } | undefined;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      yield* body;
    } catch (error) {
      failure = { error };
      throw error;
    }
  }
  return { chunks: chunks(), failure: () => failure };
}
