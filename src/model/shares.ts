// Values that several users share, by key. A value is open as long as somebody uses it.

export interface Share<T> {
  readonly value: T;
  /** Closes the value if nobody else uses it, and resolves then. A second call does nothing. */
  release(): Promise<void>;
}

interface SharedEntry<T> {
  readonly value: T;
  holders: number;
}

export class Shares<T> {
  readonly #entries = new Map<string, SharedEntry<T>>();
  readonly #close: (value: T) => Promise<void> | void;

  constructor(close: (value: T) => Promise<void> | void) {
    this.#close = close;
  }

  /** The value with this key. The first caller opens it. */
  take(key: string, open: () => T): Share<T> {
    const entry = this.#entries.get(key) ?? { value: open(), holders: 0 };
    this.#entries.set(key, entry);
    entry.holders += 1;
    let isReleased = false;
    return {
      value: entry.value,
      release: async () => {
        if (isReleased) return;
        isReleased = true;
        entry.holders -= 1;
        if (entry.holders > 0) return;
        // From now on the next caller opens a new one, even while this one is still closing.
        if (this.#entries.get(key) === entry) this.#entries.delete(key);
        await this.#close(entry.value);
      },
    };
  }
}
