// How often a task was started for nothing: the count behind --max-attempts. Pure; the records of earlier
// attempts are its only source, so that the count holds whatever machine or scheduler started them.
import type { AttemptEnd } from '../checkpoint/history.ts';
import { restoreOrder } from '../checkpoint/restore-order.ts';
import type { Generation } from '../format/records.ts';

/**
 * Attempts of this run, this one included, since the one that made the checkpoint with which the next attempt
 * would begin: 0 when this one made it. What is done is over: attempts before it do not count.
 *
 * @param generations all that this attempt knows, its own too.
 * @param verified checkpoints are checked at restore, so that a suspect one may be what the next begins with.
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
