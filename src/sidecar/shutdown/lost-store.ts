// The end of a run whose store is gone, or is another one now. A file system may be mounted again, so we wait for it
// as in any outage, but not for all of `--drain-timeout`: what the store held will hardly come back by itself.
import { EXIT } from '../../model/exit-status.ts';
import type { Verdict } from '../../model/outcome/verdict.ts';
import { LOST_WAIT_MS, type Outage } from '../run/outage.ts';
import type { DrainWindow } from './drain-window.ts';

const LOOK_EVERY_MS = 1000;

/** Ends the drain once the store has been lost for a minute without a break. */
export function endWhenLost(
  outage: Pick<Outage, 'isLost'>,
  window: Pick<DrainWindow, 'endBy'>,
  now: () => number,
): { close(): void } {
  let sinceMs: number | undefined;
  const look = (): void => {
    sinceMs = outage.isLost ? (sinceMs ?? performance.now()) : undefined;
    if (sinceMs === undefined || performance.now() - sinceMs < LOST_WAIT_MS) return;
    clearInterval(timer);
    window.endBy(now());
  };
  const timer = setInterval(look, LOOK_EVERY_MS).unref();
  look();
  return { close: () => clearInterval(timer) };
}

/** Another attempt would find nothing of this one: so the exit status is neither success nor "run me again". */
export function verdictWhenLost(verdict: Verdict): Verdict {
  if (verdict.status !== EXIT.ok && verdict.kind !== 'preempted') return verdict;
  return { kind: 'failed', status: EXIT.notStored, reason: 'what was stored is not in the store any more' };
}
