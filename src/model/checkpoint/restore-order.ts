// Which generation a restore prefers. Pure, and the one place that says what the marks of a generation are worth.
import type { Generation } from '../format/records.ts';
import { generationName, newestFirst, type AttemptEnd } from './history.ts';

/** After this many failed attempts from one generation, the one before it is tried. */
const TRIES_EACH = 2;

/** Proven to be whole and of one moment. Such generations are what `--generations` counts. */
export function isGood(generation: Generation): boolean {
  return rankOf(generation) === 0 && generation.instant !== true;
}

/** True if no death closed a member: a task that lived on closed whatever was closed earlier. */
export function isProofOfLife(generation: Generation): boolean {
  return rankOf(generation) === 0;
}

/**
 * The order in which restore tries generations: good ones newest first, then unproven ones (a death may have made the
 * close that made them, and their attempt never said that it had not), then incomplete, then suspect.
 *
 * An `instant` one stands among the good ones by its age: it is only ever committed when the newest good one is older
 * than the bound (model/checkpoint/cut), so no clocks of different machines have to be compared here. A good one that
 * follows it is preferred, because it is newer.
 *
 * If each is verified (`--verify-checkpoint`), a doubtful one is tried in its turn: it may be whole all the same.
 */
export function restoreOrder(generations: readonly Generation[], verified = false): readonly Generation[] {
  const rank = (g: Generation): number => rankOf(verified ? { incomplete: g.incomplete } : g);
  return generations.toSorted((a, b) => rank(a) - rank(b) || newestFirst(a, b));
}

function rankOf({ suspect, incomplete, unproven }: Partial<Generation>): number {
  if (suspect === true) return 3;
  if (incomplete === true) return 2;
  return unproven === true ? 1 : 0;
}

/**
 * The same order, but generations from which the last attempts failed twice, without a newer checkpoint, come after
 * those that were tried less often. Attempts that were stopped from outside, or vanished, do not count.
 *
 * @param attempts in ascending order.
 */
export function afterFailures(
  order: readonly Generation[],
  attempts: readonly AttemptEnd[],
): readonly Generation[] {
  const failures = new Map<string, number>();
  for (const { attempt, kind, restored, sameRun } of attempts.toReversed()) {
    if (!sameRun) continue;
    if (kind === 'done' || order.some((one) => one.attempt === attempt && rankOf(one) < 2)) break;
    if (kind === 'failed' && restored !== undefined)
      failures.set(restored, (failures.get(restored) ?? 0) + 1);
  }
  const rounds = (g: Generation): number => Math.floor((failures.get(generationName(g)) ?? 0) / TRIES_EACH);
  return order.toSorted((a, b) => rounds(a) - rounds(b));
}
