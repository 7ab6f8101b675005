// How fast a submission progresses, and how long the rest takes. The rate uses the looks of this command; before the
// second look it uses the time since the jobs were queued. Memory only; times are arguments.

import type { SeenSubmission } from '../../model/many/choose.ts';

/** Older looks say less, because workers come and go. */
const WINDOW_MS = 10 * 60_000;
/** Over a shorter time, the end of a single task would distort the rate. */
const LEAST_MS = 60_000;
const A_MINUTE_MS = 60_000;

interface Look {
  readonly atMs: number;
  /** Tasks that wait, run or have failed. */
  readonly left: number;
}

export class RateOf {
  readonly #filled: Look;
  #looks: readonly Look[] = [];

  constructor(filledMs: number, count: number) {
    this.#filled = { atMs: filledMs, left: count };
  }

  add(atMs: number, left: number): void {
    this.#looks = [...this.#looks.filter((look) => look.atMs > atMs - WINDOW_MS), { atMs, left }];
  }

  /** Undefined until a task has ended. */
  perMinute(): number | undefined {
    const [oldest, last] = [this.#looks[0], this.#looks.at(-1)];
    if (oldest === undefined || last === undefined) return undefined;
    const first = last.atMs - oldest.atMs >= LEAST_MS ? oldest : this.#filled;
    const ended = first.left - last.left;
    const tookMs = last.atMs - first.atMs;
    return ended > 0 && tookMs > 0 ? (ended / tookMs) * A_MINUTE_MS : undefined;
  }

  leftMs(count: number): number | undefined {
    const rate = this.perMinute();
    return rate === undefined || count === 0 ? undefined : (count / rate) * A_MINUTE_MS;
  }
}

/** Adds a look at each submission to its rate. */
export function addLook(rates: Map<string, RateOf>, nowMs: number, all: readonly SeenSubmission[]): void {
  for (const { submission, counts } of all) {
    const { name, submittedMs, size, filled = { atMs: submittedMs, count: size } } = submission;
    const rate = rates.get(name) ?? new RateOf(filled.atMs, filled.count);
    rates.set(name, rate);
    rate.add(nowMs, counts.waiting + counts.running + counts.failed);
  }
}
