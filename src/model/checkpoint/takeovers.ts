// The numbers of records and sets after a sidecar replaces a dead one. Objects that the dead one has sent may still
// arrive, and must not share a number or a name with objects of the replacement. So the replacement skips some numbers.
import type { Takeover } from '../format/records.ts';

/** Fewer are ever in flight: one record at a time, and its tries without an answer. */
const SKIPPED_NUMBERS = 1000;

/** The first number of a process that continues after `newest`. */
export function firstNumber(newest: number, isTakeover: boolean): number {
  return newest + 1 + (isTakeover ? SKIPPED_NUMBERS : 0);
}

/** True for a number that the replacement, which began with `first`, has skipped: it does not know its object. */
export function isSkipped(number: number, first: number): boolean {
  return number < first && number >= first - SKIPPED_NUMBERS;
}

/** How many sets an attempt has committed, by the number of its newest set. */
export function committedCount(newest: number, takeovers: readonly Takeover[]): number {
  return newest - SKIPPED_NUMBERS * takeovers.filter(({ generation }) => generation <= newest).length;
}
