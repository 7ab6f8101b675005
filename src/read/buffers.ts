// The memory that contents are read and compressed into: used again and again, by files of any size, as each byte that is
// new to the process costs the kernel more than reading it does. Bounded by what is under way at once.
import { emptyMemory, newMemory, wholeMemory } from '../native/memory.ts';

export class Buffers {
  readonly #usualBytes: number;
  readonly #mostWarm: number;
  readonly #warm: Uint8Array[] = [];
  /** Without pages. Never forgotten: V8 does not count them, and would not free for long what is lost sight of. */
  readonly #empty: Uint8Array[] = [];

  /**
   * `usualBytes`: what is asked for has this size, or less, unless a file is very large. Of those that nobody uses,
   * `mostWarm` keep their pages.
   */
  constructor(usualBytes: number, mostWarm: number) {
    this.#usualBytes = usualBytes;
    this.#mostWarm = mostWarm;
  }

  /** So many bytes; what is in them is of no meaning. */
  take(bytes: number): Uint8Array {
    const spare = this.#warm.pop() ?? this.#empty.pop();
    if (spare !== undefined && spare.length >= bytes) return spare.subarray(0, bytes);
    // A file of larger parts: rare.
    if (spare !== undefined) emptyMemory(spare);
    return newMemory(Math.max(bytes, this.#usualBytes)).subarray(0, bytes);
  }

  /** What was taken, or a part of it, and is nobody else's any more. */
  giveBack(bytes: Uint8Array): void {
    const whole = wholeMemory(bytes);
    if (this.#warm.length < this.#mostWarm) {
      this.#warm.push(whole);
      return;
    }
    emptyMemory(whole);
    this.#empty.push(whole);
  }

  /** Gives all pages back; it may be used on. */
  empty(): void {
    this.#warm.forEach(emptyMemory);
    this.#empty.push(...this.#warm.splice(0));
  }
}
