// How many bytes the link to the store carries in a second, from the parts of large files that this run sends. Known
// only once the link was what they waited for: before, nobody gains by sending less. Reads no clock.

/** Parts that are acknowledged between two measurements: a store is sent two at once, which may be done together. */
const PARTS_EACH = 2;
/** The link is the bottleneck if it has waited for less than this share of the time. */
const IDLE_SHARE = 0.1;

export class LinkRate {
  #bytesPerS: number | undefined;
  #bodies = 0;
  /** Parts that were given to the store and not acknowledged. */
  #underWay = 0;
  #lastMs = 0;
  /** A part was acknowledged since the link was last at rest: only now does it carry all that it can. */
  #isRunning = false;
  // Since the last measurement.
  #startMs = 0;
  #bytes = 0;
  #parts = 0;
  #given = 0;
  #busyMs = 0;
  #waitedMs = 0;

  /** Undefined while the link was never the bottleneck. */
  get bytesPerS(): number | undefined {
    return this.#bytesPerS;
  }

  /** A body of several parts begins. */
  begun(): void {
    this.#bodies += 1;
  }

  /** The store has got a part, and has waited for it so long. */
  given(waitedMs: number, nowMs: number): void {
    this.#goOn(nowMs);
    // S3 sends nothing before the second part is there.
    if (this.#isRunning) {
      this.#waitedMs += waitedMs;
      this.#given += 1;
    } else this.#restart(nowMs);
    this.#underWay += 1;
  }

  /** The store has acknowledged a part. */
  sent(bytes: number, nowMs: number): void {
    this.#goOn(nowMs);
    this.#isRunning = true;
    this.#underWay -= 1;
    this.#bytes += bytes;
    this.#parts += 1;
    if (this.#parts < PARTS_EACH) return;
    this.#measure(nowMs - this.#startMs);
    this.#restart(nowMs);
  }

  /** A body is over, with so many parts that were never acknowledged. */
  ended(unsent: number, nowMs: number): void {
    this.#goOn(nowMs);
    this.#underWay -= unsent;
    this.#bodies -= 1;
    if (this.#bodies > 0) return;
    this.#isRunning = false;
    this.#restart(nowMs);
  }

  #goOn(nowMs: number): void {
    if (this.#underWay > 0) this.#busyMs += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  #restart(nowMs: number): void {
    this.#startMs = nowMs;
    this.#bytes = 0;
    this.#parts = 0;
    this.#given = 0;
    this.#busyMs = 0;
    this.#waitedMs = 0;
  }

  #measure(elapsedMs: number): void {
    if (this.#busyMs <= 0) return;
    const rate = (this.#bytes / this.#busyMs) * 1000;
    const known = this.#bytesPerS;
    // Without a further part nobody knows what would have had to wait.
    if (this.#given > 0 && this.#waitedMs <= elapsedMs * IDLE_SHARE)
      this.#bytesPerS = known === undefined ? rate : (known + rate) / 2;
    // A link that had to wait may carry more, and never less.
    else if (known !== undefined && rate > known) this.#bytesPerS = (known + rate) / 2;
  }
}
