// Values that several have together, by key: each is open as long as somebody has it. It does nothing by itself.

export interface Share<T> {
  readonly value: T;
  /** Closes the value if nobody else has it, and resolves then; called again it does nothing. */
  release(): Promise<void>;
}

interface Held<T> {
  readonly value: T;
  holders: number;
}

export class Shares<T> {
  readonly #held = new Map<string, Held<T>>();
  readonly #close: (value: T) => Promise<void> | void;

  constructor(close: (value: T) => Promise<void> | void) {
    this.#close = close;
  }

  /** The one with this key; the first to ask opens it. */
  take(key: string, open: () => T): Share<T> {
    const held = this.#held.get(key) ?? { value: open(), holders: 0 };
    this.#held.set(key, held);
    held.holders += 1;
    let isReleased = false;
    return {
      value: held.value,
      release: async () => {
        if (isReleased) return;
        isReleased = true;
        held.holders -= 1;
        if (held.holders > 0) return;
        // From now on it is opened anew for whoever asks, though this one is still closing.
        if (this.#held.get(key) === held) this.#held.delete(key);
        await this.#close(held.value);
      },
    };
  }
}
