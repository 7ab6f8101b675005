// Which generation a restore prefers. Pure, and the one place that ranks the marks of a generation.
import { EXIT } from '../exit-status.ts';
import type { Generation } from '../format/records.ts';
import { generationName, newestFirst, type AttemptEnd } from './history.ts';

/** After this many failed attempts from one generation, restore tries the one before it. */
const TRIES_EACH = 2;

/** Proven whole and of one moment. `--generations` counts these. */
export function isGood(generation: Generation): boolean {
  return rankOf(generation) === 0 && generation.instant !== true;
}

/** True if no dying process closed a member: a task that lived on had closed every earlier file itself. */
export function isProofOfLife(generation: Generation): boolean {
  return rankOf(generation) === 0;
}

/**
 * The order in which restore tries generations: good ones, newest first; then unproven ones (the kernel may have
 * closed a member for a dying process, and the attempt never recorded otherwise); then incomplete; then suspect.
 *
 * An `instant` generation is ranked among the good ones by age. It is committed only if the newest good one is older
 * than the bound (model/checkpoint/cut), so no clocks of different machines are compared here. A later good one is
 * preferred because it is newer.
 *
 * If each generation is verified (`--verify-checkpoint`), doubtful ones are tried by age too: they may be whole.
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
 * The same order, except that generations from which the last attempts failed twice, without a newer checkpoint, come
 * after those that were tried less often. Attempts that were stopped from outside, or vanished, do not count, and
 * neither do those whose task ended with 0.
 *
 * @param attempts in ascending order.
 */
export function afterFailures(
  order: readonly Generation[],
  attempts: readonly AttemptEnd[],
): readonly Generation[] {
  const failures = new Map<string, number>();
  for (const { attempt, kind, status, restored, sameRun } of attempts.toReversed()) {
    if (!sameRun) continue;
    if (kind === 'done' || order.some((one) => one.attempt === attempt && rankOf(one) < 2)) break;
    if (kind === 'failed' && status !== EXIT.notStored && restored !== undefined)
      failures.set(restored, (failures.get(restored) ?? 0) + 1);
  }
  const rounds = (g: Generation): number => Math.floor((failures.get(generationName(g)) ?? 0) / TRIES_EACH);
  return order.toSorted((a, b) => rounds(a) - rounds(b));
}
