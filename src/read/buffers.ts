// The memory for reading and compressing contents. It is reused for files of any size, because a page that is new to
// the process costs the kernel more than reading it does. Bounded by the number of concurrent jobs.
import { newMemory, releaseMemory, wholeMemory } from '../native/memory.ts';

export class Buffers {
  readonly #usualBytes: number;
  readonly #mostWarm: number;
  readonly #warm: Uint8Array[] = [];
  /**
   * Buffers without pages. They are kept for ever: V8 does not count their memory, so it would free a dropped buffer
   * late.
   */
  readonly #empty: Uint8Array[] = [];

  /**
   * `usualBytes`: requests are at most this large, unless a file is very large. Of the unused buffers, `mostWarm` keep
   * their pages.
   */
  constructor(usualBytes: number, mostWarm: number) {
    this.#usualBytes = usualBytes;
    this.#mostWarm = mostWarm;
  }

  /** A buffer of this size, with arbitrary content. */
  take(bytes: number): Uint8Array {
    const spare = this.#warm.pop() ?? this.#empty.pop();
    if (spare !== undefined && spare.length >= bytes) return spare.subarray(0, bytes);
    // A file of larger parts: rare.
    if (spare !== undefined) releaseMemory(spare);
    return newMemory(Math.max(bytes, this.#usualBytes)).subarray(0, bytes);
  }

  /** Returns a buffer, or a part of one, that nobody uses any more. */
  giveBack(bytes: Uint8Array): void {
    const whole = wholeMemory(bytes);
    if (this.#warm.length < this.#mostWarm) {
      this.#warm.push(whole);
      return;
    }
    releaseMemory(whole);
    this.#empty.push(whole);
  }

  /** Frees all pages; the buffers can still be used. */
  empty(): void {
    this.#warm.forEach(releaseMemory);
    this.#empty.push(...this.#warm.splice(0));
  }
}
