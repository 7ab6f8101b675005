// How often a task was started in vain: the count behind --max-attempts. Pure; it counts only by the records of
// earlier attempts, so it is right whatever machine or scheduler started them.
import type { AttemptEnd } from '../checkpoint/history.ts';
import { restoreOrder } from '../checkpoint/restore-order.ts';
import type { Generation } from '../format/records.ts';

/**
 * Attempts of this run, including this one, since the one that made the checkpoint with which the next attempt would
 * begin; 0 if this one made it. Attempts before one that was done do not count.
 *
 * @param generations all that this attempt knows, including its own.
 * @param verified checkpoints are checked at restore, so the next attempt may begin with a suspect one.
 */
export function attemptsInVain(
  earlier: readonly AttemptEnd[],
  generations: readonly Generation[],
  attempt: number,
  verified: boolean,
): number {
  const [next] = restoreOrder(generations, verified);
  const same = earlier.filter(({ sameRun }) => sameRun);
  const done = same.findLast(({ kind }) => kind === 'done');
  const since = Math.max(next?.attempt ?? 0, done?.attempt ?? 0);
  if (since >= attempt) return 0;
  return 1 + same.filter((end) => end.attempt > since && end.attempt < attempt).length;
}
