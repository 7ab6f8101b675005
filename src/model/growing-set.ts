// A set that only grows. Adding a member costs one addition and leaves older states as they were. Pure functions
// return such sets, with very many members, after each close.

export interface GrowingSet<T> extends Iterable<T> {
  readonly size: number;
  has(value: T): boolean;
  /** Returns the set with this member added; this set does not change. */
  with(value: T): GrowingSet<T>;
}

export function growingSet<T>(values: Iterable<T> = []): GrowingSet<T> {
  const places = new Map<T, number>();
  for (const value of values) if (!places.has(value)) places.set(value, places.size);
  return stateOf(places, places.size);
}

/** The first `size` members. All states share one map, until an older state grows in another way. */
function stateOf<T>(places: Map<T, number>, size: number): GrowingSet<T> {
  const has = (value: T): boolean => (places.get(value) ?? Infinity) < size;
  return {
    size,
    has,
    with(value) {
      if (has(value)) return this;
      if (places.size > size) return growingSet([...this, value]);
      places.set(value, size);
      return stateOf(places, size + 1);
    },
    *[Symbol.iterator]() {
      for (const [value, place] of places) {
        if (place >= size) return;
        yield value;
      }
    },
  };
}
