// The throughput of the link to the store in bytes per second, measured from the parts of large files that this run
// sends. It is known only once parts have waited for the link: before that, nobody gains by sending less. Reads no
// clock.

/** Parts acknowledged between two measurements. Two are in flight at once and may be acknowledged together. */
const PARTS_EACH = 2;
/** The link is the bottleneck if it was idle for less than this share of the time. */
const IDLE_SHARE = 0.1;

export class LinkRate {
  #bytesPerS: number | undefined;
  #bodies = 0;
  /** Parts that were handed to the store and are not acknowledged. */
  #underWay = 0;
  #lastMs = 0;
  /** A part was acknowledged since the link was last idle. Only then does the link run at full speed. */
  #isRunning = false;
  // Since the last measurement.
  #startMs = 0;
  #bytes = 0;
  #parts = 0;
  #given = 0;
  #busyMs = 0;
  #waitedMs = 0;

  /** Undefined until the link was the bottleneck once. */
  get bytesPerS(): number | undefined {
    return this.#bytesPerS;
  }

  /** A body of several parts begins. */
  bodyStarted(): void {
    this.#bodies += 1;
  }

  /** The store has received a part, after waiting `waitedMs` for it. */
  partTaken(waitedMs: number, nowMs: number): void {
    this.#goOn(nowMs);
    // S3 sends nothing before it has the second part.
    if (this.#isRunning) {
      this.#waitedMs += waitedMs;
      this.#given += 1;
    } else this.#restart(nowMs);
    this.#underWay += 1;
  }

  /** The store has acknowledged a part. */
  partAcknowledged(bytes: number, nowMs: number): void {
    this.#goOn(nowMs);
    this.#isRunning = true;
    this.#underWay -= 1;
    this.#bytes += bytes;
    this.#parts += 1;
    if (this.#parts < PARTS_EACH) return;
    this.#measure(nowMs - this.#startMs);
    this.#restart(nowMs);
  }

  /** A body ended; `unsent` of its parts were never acknowledged. */
  bodyEnded(unsent: number, nowMs: number): void {
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
    // Without a further part, it is unknown whether a part would have waited for the link.
    if (this.#given > 0 && this.#waitedMs <= elapsedMs * IDLE_SHARE)
      this.#bytesPerS = known === undefined ? rate : (known + rate) / 2;
    // The link was idle at times, so it may carry more than measured, but never less.
    else if (known !== undefined && rate > known) this.#bytesPerS = (known + rate) / 2;
  }
}
