// How many attempts ran in each interval of time, and how many ended in it, by kind of end. Pure.
import { type AttemptRow, type End, ENDS, type IndexEntry, lastSignOf } from '../data.ts';

export interface Stretches {
  /** The start of each interval, s since the epoch. */
  readonly from: readonly number[];
  readonly step: number;
  /** Running attempts, on average over the part of the interval that is in the span. */
  readonly atWork: readonly number[];
  readonly ends: { readonly [end in End]: readonly number[] };
}

const MOST = 120;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Lengths of an interval that are easy to read, s. */
const STEPS = [1, 2, 5, 10, 15, 30]
  .flatMap((each) => [each, each * MINUTE])
  .concat([1, 2, 3, 6, 12].map((each) => each * HOUR));

/**
 * From the first start to the last sign of life, s since the epoch; if an attempt is running, at least to `now`.
 * Undefined if no attempt has started.
 */
export function spanOf(
  entries: readonly IndexEntry[],
  now: number,
): { readonly first: number; readonly last: number } | undefined {
  let [first, last] = [Infinity, -Infinity];
  for (const { attempts } of entries)
    for (const one of attempts) {
      first = Math.min(first, one.from);
      last = Math.max(last, untilOf(one, now));
    }
  return first === Infinity ? undefined : { first, last };
}

/** A running attempt is at work now, although its last sign of life is older. */
function untilOf(one: AttemptRow, now: number): number {
  return one.end === 'running' ? Math.max(now, lastSignOf(one)) : lastSignOf(one);
}

/** `now`: when the report was made, s since the epoch. Undefined if no attempt has started. */
export function stretchesOf(entries: readonly IndexEntry[], now: number, most = MOST): Stretches | undefined {
  const span = spanOf(entries, now);
  if (span === undefined) return undefined;
  const { first, last } = span;
  const least = (last - first) / (most - 1);
  const step = STEPS.toSorted((a, b) => a - b).find((one) => one >= least) ?? Math.ceil(least / DAY) * DAY;
  const begin = first - (first % step);
  const count = Math.max(1, Math.ceil((last - begin) / step));
  const from = Array.from({ length: count }, (_, at) => begin + at * step);
  const zeros = (): number[] => from.map(() => 0);
  const atWork = zeros();
  const ends = Object.fromEntries(ENDS.map((end) => [end, zeros()])) as Record<End, number[]>;
  // An attempt that ends with the span ends in its last interval.
  const intervalOf = (time: number): number => Math.min(count - 1, Math.floor((time - begin) / step));
  for (const one of entries.flatMap(({ attempts }) => attempts)) {
    const until = untilOf(one, now);
    const endAt = intervalOf(until);
    for (let at = intervalOf(one.from); at <= endAt; at += 1) {
      const [start, end] = [Math.max(first, begin + at * step), Math.min(last, begin + (at + 1) * step)];
      const overlap = Math.min(until, end) - Math.max(one.from, start);
      if (overlap > 0) atWork[at] = (atWork[at] ?? 0) + overlap / (end - start);
    }
    ends[one.end][endAt] = (ends[one.end][endAt] ?? 0) + 1;
  }
  return { from, step, atWork, ends };
}
