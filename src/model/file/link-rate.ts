// How fast bytes go to the store, from what it has acknowledged while something was under way. Old measures
// fade, so that a link that becomes slower is noticed. Reads no clock: every call says when it is.

/** After so much busy time a measure counts half. */
const HALF_LIFE_MS = 15_000;
/** Less busy time than this says nothing. */
const LEAST_BUSY_MS = 100;
/** Nor do fewer bytes: a few small files measure how soon the store answers, not what the link carries. */
const LEAST_BYTES = 2 ** 19;

export class LinkRate {
  #underWay = 0;
  #foldedAtMs = 0;
  #busyMs = 0;
  #bytes = 0;
  /** Of all time. */
  #heardBytes = 0;

  began(nowMs: number): void {
    this.#fold(nowMs);
    this.#underWay += 1;
  }

  sent(bytes: number, nowMs: number): void {
    this.#fold(nowMs);
    this.#bytes += bytes;
    this.#heardBytes += bytes;
  }

  ended(nowMs: number): void {
    this.#fold(nowMs);
    this.#underWay -= 1;
  }

  /** Bytes in a millisecond; undefined while too little is known. */
  bytesPerMs(nowMs: number): number | undefined {
    this.#fold(nowMs);
    return this.#heardBytes < LEAST_BYTES || this.#busyMs < LEAST_BUSY_MS
      ? undefined
      : this.#bytes / this.#busyMs;
  }

  /** The same if `moreBytes` were acknowledged now: what is on its way may be all but there. */
  bytesPerMsWith(moreBytes: number, nowMs: number): number | undefined {
    const bytesPerMs = this.bytesPerMs(nowMs);
    return bytesPerMs === undefined ? undefined : bytesPerMs + moreBytes / this.#busyMs;
  }

  #fold(nowMs: number): void {
    const passedMs = Math.max(0, nowMs - this.#foldedAtMs);
    this.#foldedAtMs = nowMs;
    if (this.#underWay === 0) return;
    const kept = 2 ** (-passedMs / HALF_LIFE_MS);
    this.#bytes *= kept;
    this.#busyMs = this.#busyMs * kept + passedMs;
  }
}
