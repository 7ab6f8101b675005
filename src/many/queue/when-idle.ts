// --when-idle: as long as somebody uses this machine, its tasks are with other workers. Looked at every few seconds.
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../log/log.ts';
import { formatMs } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import type { Pausing } from './pausing.ts';
import { unusedForMs } from './person.ts';

interface UseWatch {
  readonly log: Pick<Log, 'info'>;
  /** The load average of one minute. */
  readonly loadOf: () => number;
  /** None of our tasks runs: then the load is of others. */
  readonly isIdle: () => boolean;
  /** Of the program that is asked. */
  readonly env: NodeJS.ProcessEnv;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
}

const LOOK_EVERY_MS = 5000;
/** Somebody computes here, with nobody at the keyboard. */
const BUSY_SHARE = 0.5;

/** `afterMs` undefined: use does not matter. */
export function watchUse(
  afterMs: number | undefined,
  pausing: Pick<Pausing, 'pause' | 'resume'>,
  around: UseWatch,
): { close(): void } {
  const stop = new AbortController();
  if (afterMs !== undefined) void look(afterMs, pausing, around, stop.signal);
  return { close: () => stop.abort() };
}

async function look(
  afterMs: number,
  pausing: Pick<Pausing, 'pause' | 'resume'>,
  { log, loadOf, isIdle, env, ownChildren }: UseWatch,
  signal: AbortSignal,
): Promise<void> {
  let isAway = false;
  while (!signal.aborted) {
    const isUsed = (await unusedForMs(clockMs(), env, ownChildren)) < afterMs;
    const isBusy = isIdle() && loadOf() > BUSY_SHARE * os.availableParallelism();
    if ((isUsed || isBusy) && !isAway) {
      isAway = true;
      log.info(
        `${isUsed ? 'somebody uses this machine' : 'this machine is busy'}: tasks go back to the queue`,
      );
      pausing.pause('use', 'checkpoint');
    } else if (!isUsed && !isBusy && isAway) {
      isAway = false;
      log.info(`nobody has used this machine for ${formatMs(afterMs)}: it takes tasks again`);
      pausing.resume('use');
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}
