// How many attempts ran in each interval of time, and how many ended in it, by kind of end. Pure.
import { type End, ENDS, type IndexEntry } from '../data.ts';

export interface Stretches {
  /** The start of each interval, s since the epoch. */
  readonly from: readonly number[];
  readonly step: number;
  /** Running attempts, on average. */
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

/** Undefined if no attempt has started. */
export function stretchesOf(entries: readonly IndexEntry[], most = MOST): Stretches | undefined {
  let [first, last] = [Infinity, -Infinity];
  for (const { attempts } of entries)
    for (const { from, ran } of attempts) {
      first = Math.min(first, from);
      last = Math.max(last, from + ran);
    }
  if (first === Infinity) return undefined;
  const least = (last - first + 1) / (most - 1);
  const step = STEPS.toSorted((a, b) => a - b).find((one) => one >= least) ?? Math.ceil(least / DAY) * DAY;
  first -= first % step;
  const count = Math.floor((last - first) / step) + 1;
  const zeros = (): number[] => Array.from({ length: count }, () => 0);
  const atWork = zeros();
  const ends = Object.fromEntries(ENDS.map((end) => [end, zeros()])) as Record<End, number[]>;
  for (const { attempts } of entries)
    for (const { from, ran, end } of attempts) {
      const until = from + ran;
      for (let at = Math.floor((from - first) / step); at < count && first + at * step <= until; at += 1) {
        const begin = first + at * step;
        const overlap = Math.min(until, begin + step) - Math.max(from, begin);
        atWork[at] = (atWork[at] ?? 0) + overlap / step;
      }
      const endAt = Math.floor((until - first) / step);
      ends[end][endAt] = (ends[end][endAt] ?? 0) + 1;
    }
  return { from: atWork.map((_, at) => first + at * step), step, atWork, ends };
}
