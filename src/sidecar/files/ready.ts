// The files that may have something to do: first come, first served, until the time is short and they are
// ranked. May be changed while it is iterated.
import type { FileKey } from './pusher.ts';

interface Entry<Rank> {
  readonly key: FileKey;
  readonly rank: Rank;
}

/** So many served keys are not worth making the queue anew. */
const FEW_SERVED = 4096;

export class Ready<Rank> {
  readonly #waiting = new Map<FileKey, Entry<Rank> | undefined>();
  #rankOf: ((key: FileKey) => Rank) | undefined;
  #compare: (a: Rank, b: Rank) => number = () => 0;
  /** As they came; what is no longer in `#waiting` is passed over, and all that is before `#first`. */
  #queue: FileKey[] = [];
  #first = 0;
  /** In the order of ranks; what is no longer in `#waiting` is passed over. */
  #ranked: Entry<Rank>[] = [];

  add(key: FileKey): void {
    if (this.#waiting.has(key)) return;
    if (this.#rankOf === undefined) {
      this.#waiting.set(key, undefined);
      this.#queue.push(key);
    } else {
      const entry = { key, rank: this.#rankOf(key) };
      this.#waiting.set(key, entry);
      this.#ranked.splice(this.#place(entry.rank), 0, entry);
    }
  }

  delete(key: FileKey): void {
    this.#waiting.delete(key);
  }

  /** From now on the order is that of `compare`; a key's rank is taken when it is added. */
  rank(rankOf: (key: FileKey) => Rank, compare: (a: Rank, b: Rank) => number): void {
    if (this.#rankOf !== undefined) return;
    const keys = [...this.#waiting.keys()];
    this.#rankOf = rankOf;
    this.#compare = compare;
    this.#waiting.clear();
    this.#queue = [];
    for (const key of keys) this.add(key);
  }

  *[Symbol.iterator](): Generator<FileKey> {
    if (this.#rankOf === undefined) return yield* this.#inTurn();
    this.#ranked = this.#ranked.filter((entry) => this.#waiting.get(entry.key) === entry);
    for (let at = 0; at < this.#ranked.length; at += 1) {
      const entry = this.#ranked[at];
      if (entry !== undefined && this.#waiting.get(entry.key) === entry) yield entry.key;
    }
  }

  /** Begins behind what was served: to pass over it each time would cost more with each file. */
  *#inTurn(): Generator<FileKey> {
    while (this.#first < this.#queue.length && !this.#waiting.has(this.#queue[this.#first] ?? -1))
      this.#first += 1;
    if (this.#first > FEW_SERVED && this.#first * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#first);
      this.#first = 0;
    }
    const queue = this.#queue;
    for (let at = this.#first; at < queue.length; at += 1) {
      const key = queue[at];
      if (key !== undefined && this.#waiting.has(key)) yield key;
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
