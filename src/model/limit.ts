// How many pieces of work run at once: open files, requests. Pure bookkeeping, it neither waits for time nor
// drops anything.

/** Runs the work when its turn comes, and answers as the work does. */
export type Limit = <T>(work: () => Promise<T>) => Promise<T>;

/** At most `most` pieces of work at once; the others follow in the order in which they came. */
export function createLimit(most: number): Limit {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place is handed on, never freed in between: nobody can slip in before the one who waited.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

/** Does it for each, at most `most` at once, and takes the next only when its turn comes: there may be very many. */
export async function forEachAtOnce<T>(
  items: Iterable<T>,
  most: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const left = items[Symbol.iterator]();
  const takeTurns = async (): Promise<void> => {
    // oxlint-disable-next-line no-await-in-loop -- one after the other is the point
    for (let next = left.next(); next.done !== true; next = left.next()) await act(next.value);
  };
  await Promise.all(Array.from({ length: most }, takeTurns));
}
