// Items that arrive one by one, for a reader that may be slower, or come later.

export class Feed<T extends object> {
  readonly #items: T[] = [];
  /** So many of them are read. */
  #at = 0;
  #wake: (() => void) | undefined;
  #isOver = false;

  readonly push = (item: T): void => {
    this.#items.push(item);
    this.#wake?.();
  };

  /** There will be no more. */
  end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  /** All items that were not read yet, until the end. For one reader at a time. */
  async *read(): AsyncGenerator<T, void, undefined> {
    for (;;) {
      for (let item = this.#items[this.#at]; item !== undefined; item = this.#items[this.#at]) {
        this.#at += 1;
        yield item;
      }
      this.#items.length = 0;
      this.#at = 0;
      if (this.#isOver) return;
      // oxlint-disable-next-line no-await-in-loop -- the next item
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
