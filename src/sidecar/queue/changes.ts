// Lets callers wait for the next change of something, whatever it is; each then looks again by itself. Keeps no
// timer, and remembers no change that nobody waited for.

export class Changes {
  #listeners: (() => void)[] = [];

  notify(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }

  /** Resolves at the next change, or when `signal` aborts. */
  async next(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        resolve();
      };
      signal.addEventListener('abort', done, { once: true });
      this.#listeners.push(done);
    });
  }
}
