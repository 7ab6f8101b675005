// Does one thing for very many items, a few at a time. It takes an item only when its turn comes; p-limit, which
// everything with fewer items uses, keeps each one that waits.

/** Calls `act` for each item, at most `most` at once, and takes the next only when its turn comes. */
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
