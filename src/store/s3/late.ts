// What may still arrive at a key. A request that was cut for us may be delivered long after newer ones were answered, so
// nothing that was ever sent without an answer counts as over. Only memory: who sends notes it here, and looks here first.
import type { Precondition } from '../contract/store.ts';

export type LateWrite =
  /** A put under the condition that the key has this ETag. */
  | { readonly kind: 'put'; readonly tag: string; readonly untilMs: number }
  /** The completion of this upload. */
  | { readonly kind: 'upload'; readonly uploadId: string }
  /** The promotion of this key, under the precondition that it had. */
  | { readonly kind: 'promotion'; readonly from: string; readonly precondition: Precondition };

/** S3 refuses a request 15 minutes after it was signed, and clocks may differ by some (bucket.ts). */
const LATEST_MS = 20 * 60_000;

export class LateWrites {
  readonly #writes = new Map<string, LateWrite[]>();
  #createsUntilMs = -Infinity;

  /** What is to be settled before the key is written again. */
  of(key: string): readonly LateWrite[] {
    return this.#writes.get(key) ?? [];
  }

  /** A put that only creates got no answer: it may bring its object back after that was deleted. */
  noteCreation(): void {
    this.#createsUntilMs = performance.now() + LATEST_MS;
  }

  get mayCreate(): boolean {
    return performance.now() < this.#createsUntilMs;
  }

  notePut(key: string, tag: string): void {
    this.note(key, { kind: 'put', tag, untilMs: performance.now() + LATEST_MS });
  }

  note(key: string, write: LateWrite): void {
    this.#writes.set(key, [...this.of(key), write]);
  }

  settled(key: string, write: LateWrite): void {
    const left = this.of(key).filter((one) => one !== write);
    if (left.length === 0) this.#writes.delete(key);
    else this.#writes.set(key, left);
  }

  /** True if a put may arrive that would replace exactly an object with this ETag: the key must not get one. */
  awaits(key: string, tag: string): boolean {
    const nowMs = performance.now();
    for (const write of this.of(key))
      if (write.kind === 'put' && write.untilMs < nowMs) this.settled(key, write);
    return this.of(key).some((write) => write.kind === 'put' && write.tag === tag);
  }
}
