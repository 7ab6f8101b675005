// The files that may have something to do: first come, first served, until the time is short and they are ranked. It
// may be changed while it is iterated.
import type { FileKey } from './pusher.ts';

interface Entry<Rank> {
  readonly key: FileKey;
  readonly rank: Rank;
}

/** The queue is made anew only after this many served keys. */
const FEW_SERVED = 4096;

export class Ready<Rank> {
  /** By key: 1 for one that waits. A Set of that many would take ten times the memory. */
  #waits = new Uint8Array(1024);
  #rankOf: ((key: FileKey) => Rank) | undefined;
  #compare: (a: Rank, b: Rank) => number = () => 0;
  /** In the order in which they came. Everything before `#first`, and what no longer waits, is passed over. */
  #queue: FileKey[] = [];
  #first = 0;
  /** In the order of ranks; what is no longer in `#entries` is passed over. */
  #ranked: Entry<Rank>[] = [];
  readonly #entries = new Map<FileKey, Entry<Rank>>();

  add(key: FileKey): void {
    if (this.#has(key)) return;
    if (key >= this.#waits.length) {
      const more = new Uint8Array(key * 2);
      more.set(this.#waits);
      this.#waits = more;
    }
    this.#waits[key] = 1;
    if (this.#rankOf === undefined) this.#queue.push(key);
    else {
      const entry = { key, rank: this.#rankOf(key) };
      this.#entries.set(key, entry);
      this.#ranked.splice(this.#place(entry.rank), 0, entry);
    }
  }

  delete(key: FileKey): void {
    if (this.#has(key)) this.#waits[key] = 0;
    this.#entries.delete(key);
    // At once: what is added again must stand at the end, not where it stood before.
    while (this.#first < this.#queue.length && !this.#has(this.#queue[this.#first] ?? -1)) this.#first += 1;
  }

  /** From now on `compare` gives the order; the rank of a key is taken when it is added. */
  rank(rankOf: (key: FileKey) => Rank, compare: (a: Rank, b: Rank) => number): void {
    if (this.#rankOf !== undefined) return;
    const keys = [...this.#inTurn()];
    this.#rankOf = rankOf;
    this.#compare = compare;
    this.#waits.fill(0);
    this.#queue = [];
    this.#first = 0;
    for (const key of keys) this.add(key);
  }

  *[Symbol.iterator](): Generator<FileKey> {
    if (this.#rankOf === undefined) return yield* this.#inTurn();
    this.#ranked = this.#ranked.filter((entry) => this.#entries.get(entry.key) === entry);
    for (let at = 0; at < this.#ranked.length; at += 1) {
      const entry = this.#ranked[at];
      if (entry !== undefined && this.#entries.get(entry.key) === entry) yield entry.key;
    }
  }

  #has(key: FileKey): boolean {
    return this.#waits[key] === 1;
  }

  /** Begins after what was served: to pass over it each time would cost more with each file. */
  *#inTurn(): Generator<FileKey> {
    if (this.#first > FEW_SERVED && this.#first * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#first);
      this.#first = 0;
    }
    const queue = this.#queue;
    for (let at = this.#first; at < queue.length; at += 1) {
      const key = queue[at];
      if (key !== undefined && this.#has(key)) yield key;
    }
  }

  /** After those of equal rank. */
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
