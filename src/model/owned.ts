// What a piece of work has opened, closed in reverse order: each before what it needs. Nothing may stay open after it,
// however it ended.

type Close = () => Promise<void> | void;

export class Owned {
  readonly #closes: Close[] = [];

  /** Calls `close` at the end. */
  add<T>(one: T, close: (one: T) => Promise<void> | void): T {
    this.#closes.push(() => close(one));
    return one;
  }

  /** Closes all of it, whatever fails, and throws what failed first. Called again it does nothing. */
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
