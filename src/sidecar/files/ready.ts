// The files that may have something to do: first come, first served, until the time is short and they are
// ranked. May be changed while it is iterated.

interface Entry<Rank> {
  readonly key: string;
  readonly rank: Rank | undefined;
}

export class Ready<Rank> {
  readonly #entries = new Map<string, Entry<Rank>>();
  #rankOf: ((key: string) => Rank) | undefined;
  #compare: (a: Rank, b: Rank) => number = () => 0;
  /** In order; what is no longer in `#entries` is passed over. */
  #ranked: Entry<Rank>[] = [];

  add(key: string): void {
    if (this.#entries.has(key)) return;
    const entry = { key, rank: this.#rankOf?.(key) };
    this.#entries.set(key, entry);
    if (entry.rank !== undefined) this.#ranked.splice(this.#place(entry.rank), 0, entry);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  /** From now on the order is that of `compare`; a key's rank is taken when it is added. */
  rank(rankOf: (key: string) => Rank, compare: (a: Rank, b: Rank) => number): void {
    if (this.#rankOf !== undefined) return;
    const keys = [...this.#entries.keys()];
    this.#rankOf = rankOf;
    this.#compare = compare;
    this.#entries.clear();
    for (const key of keys) this.add(key);
  }

  *[Symbol.iterator](): Generator<string> {
    if (this.#rankOf === undefined) return yield* this.#entries.keys();
    this.#ranked = this.#ranked.filter((entry) => this.#entries.get(entry.key) === entry);
    for (let at = 0; at < this.#ranked.length; at += 1) {
      const entry = this.#ranked[at];
      if (entry !== undefined && this.#entries.get(entry.key) === entry) yield entry.key;
    }
  }

  /** Behind its equals. */
  #place(rank: Rank): number {
    let low = 0;
    let high = this.#ranked.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#ranked[middle]?.rank;
      if (there !== undefined && this.#compare(there, rank) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
