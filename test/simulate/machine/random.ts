// The only source of choices: the same seed gives the same numbers on every machine.

/** mulberry32 */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = Math.trunc(seed) | 0;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** In [0, below). */
  int(below: number): number {
    return Math.floor(this.next() * below);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.int(choices.length)] as T;
  }

  /** Log-uniform between two durations, whole ms: short ones are as frequent as long ones. */
  ms(least: number, most: number): number {
    return Math.round(least * (most / least) ** this.next());
  }

  shuffled<T>(items: readonly T[]): T[] {
    const rest = [...items];
    return items.map(() => rest.splice(this.int(rest.length), 1)[0] as T);
  }

  /** As randomUUID() of node:crypto. */
  uuid(): string {
    const hex = Array.from({ length: 4 }, () =>
      Math.floor(this.next() * 2 ** 32)
        .toString(16)
        .padStart(8, '0'),
    ).join('');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }
}
