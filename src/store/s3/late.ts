// Requests that may still arrive at a key. The network may deliver a request that we gave up long after newer ones were
// answered, so no request without an answer counts as finished. This is kept in memory: senders note such requests
// here, and check here first.
import type { Precondition } from '../contract/store.ts';

export type LateWrite =
  /** A put with the condition that the key has this ETag. */
  | { readonly kind: 'put'; readonly tag: string; readonly untilMs: number }
  /** The completion of this upload. */
  | { readonly kind: 'upload'; readonly uploadId: string }
  /** The promotion of this key, with its precondition. */
  | { readonly kind: 'promotion'; readonly from: string; readonly precondition: Precondition };

/** S3 refuses a request 15 minutes after its signature, and clocks may differ somewhat (bucket.ts). */
const LATEST_MS = 20 * 60_000;

export class LateWrites {
  readonly #writes = new Map<string, LateWrite[]>();
  #createsUntilMs = -Infinity;

  /** The writes to settle before the key is written again. */
  of(key: string): readonly LateWrite[] {
    return this.#writes.get(key) ?? [];
  }

  /** A create-only put got no answer. It may bring its object back after the object was deleted. */
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

  /** True if a late put may replace exactly an object with this ETag. The key must not get such an object. */
  awaits(key: string, tag: string): boolean {
    const nowMs = performance.now();
    for (const write of this.of(key))
      if (write.kind === 'put' && write.untilMs < nowMs) this.settled(key, write);
    return this.of(key).some((write) => write.kind === 'put' && write.tag === tag);
  }
}
