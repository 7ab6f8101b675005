// One timer for all files that wait for their time.

import type { FileKey } from './pusher.ts';

export class Alarm {
  readonly #now: () => number;
  readonly #onDue: (keys: readonly FileKey[]) => void;
  readonly #untilMs = new Map<FileKey, number>();
  #timer: NodeJS.Timeout | undefined;
  #timerMs = Infinity;

  /** Calls `onDue` with the keys whose instant has come. */
  constructor(now: () => number, onDue: (keys: readonly FileKey[]) => void) {
    this.#now = now;
    this.#onDue = onDue;
  }

  /** How many keys wait. */
  get size(): number {
    return this.#untilMs.size;
  }

  wait(key: FileKey, untilMs: number): void {
    this.#untilMs.set(key, untilMs);
    if (untilMs < this.#timerMs) this.#arm(untilMs);
  }

  cancel(key: FileKey): void {
    this.#untilMs.delete(key);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #arm(untilMs: number): void {
    clearTimeout(this.#timer);
    this.#timerMs = untilMs;
    this.#timer = setTimeout(() => this.#ring(), Math.max(1, untilMs - this.#now()));
  }

  #ring(): void {
    const nowMs = this.#now();
    const due: FileKey[] = [];
    for (const [key, untilMs] of this.#untilMs) if (untilMs <= nowMs) due.push(key);
    for (const key of due) this.#untilMs.delete(key);
    this.#timerMs = Infinity;
    let nextMs = Infinity;
    for (const untilMs of this.#untilMs.values()) nextMs = Math.min(nextMs, untilMs);
    if (nextMs !== Infinity) this.#arm(nextMs);
    this.#onDue(due);
  }
}
