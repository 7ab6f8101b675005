/** Numbers for tasks that run at the same time: each has one that no other has, from 0, and the lowest that is free. */
export class Seats {
  readonly #taken = new Set<number>();

  take(): number {
    let seat = 0;
    while (this.#taken.has(seat)) seat += 1;
    this.#taken.add(seat);
    return seat;
  }

  leave(seat: number): void {
    this.#taken.delete(seat);
  }
}
