// The resources that a piece of work has opened. They are closed in reverse order, so each closes before what it
// needs. Nothing stays open after the work, however it ended.

type Close = () => Promise<void> | void;

export class CloseStack {
  readonly #closes: Close[] = [];

  /** Takes over `one`, and calls `close` on it at the end. */
  add<T>(one: T, close: (one: T) => Promise<void> | void): T {
    this.#closes.push(() => close(one));
    return one;
  }

  /** Closes everything, whatever fails, and throws the first failure. A second call does nothing. */
  readonly close = async (): Promise<void> => {
    const failures: unknown[] = [];
    for (const close of this.#closes.splice(0).toReversed()) {
      try {
        await close();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  };
}
